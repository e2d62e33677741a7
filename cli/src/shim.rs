//! The audit library's look-ups, which are C (`shim/audit/`): in the table of a node, asking its
//! daemon for what is not yet there.

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_uint, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;

use headwater_abi::Want;

use crate::launch::TABLE;

/// What executing a file comes to.
#[derive(Debug)]
pub enum Resolved {
    /// The file is to be executed as it is.
    Original,
    /// The file can't be executed, as the original could not.
    Fails(io::Error),
    /// This is to be executed instead.
    Copy {
        /// The copy in the store, or a script's interpreter.
        file: OsString,
        /// The arguments, the program's name among them.
        arguments: Vec<OsString>,
    },
}

/// Where a file is.
#[derive(Debug)]
pub enum Found {
    /// Where its path says, if anywhere.
    Original,
    /// Its copy is here, with the parts that were wanted.
    Copy(PathBuf),
    /// Nowhere.
    Nothing,
}

const HW_PATH_MAX: usize = 4096;
/// `enum hw_answer` of `shim.h`.
const HW_FAILS: c_int = 1;
const HW_KNOWN: c_int = 2;
/// Slots that `hw_exec_resolve` may need beyond the arguments.
const EXTRA_ARGUMENTS: usize = 3;

/// `struct hw_exec` of `shim.h`.
#[repr(C)]
struct HwExec {
    file: [c_char; 2 * HW_PATH_MAX],
    line: [c_char; 256],
    script: [c_char; HW_PATH_MAX],
}

/// `struct hw_found` of `shim.h`.
#[repr(C)]
struct HwFound {
    record: *const c_void,
    state: u64,
    error: c_int,
    path_bytes: usize,
    path: [c_char; HW_PATH_MAX],
}

unsafe extern "C" {
    fn hw_attach(envp: *const *const c_char);
    fn hw_resolve(dirfd: c_int, path: *const c_char, want: c_uint, found: *mut HwFound) -> c_int;
    fn hw_store_path(path: *const c_char, bytes: usize, out: *mut c_char) -> c_int;
    fn hw_exec_resolve(
        dirfd: c_int,
        path: *const c_char,
        argv: *const *const c_char,
        exec: *mut HwExec,
        argv_out: *mut *const c_char,
        error: *mut c_int,
    ) -> c_int;
}

/// Makes `table` the one that is looked into. The first that can be used stays; without one every
/// answer is the original.
pub fn attach(table: &Path) {
    let Ok(variable) = CString::new([TABLE.as_bytes(), b"=", table.as_os_str().as_bytes()].concat()) else { return };
    let envp = [variable.as_ptr(), ptr::null()];
    // SAFETY: envp ends with NULL, and its string lives until the function returns; it keeps neither.
    unsafe { hw_attach(envp.as_ptr()) };
}

/// Where the file with this absolute path is.
pub fn find(path: &Path, want: Want) -> Found {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return Found::Nothing };
    let mut found = Box::new(MaybeUninit::<HwFound>::zeroed());
    // SAFETY: the path is NUL-terminated and found is writable; both outlive the call.
    match unsafe { hw_resolve(libc::AT_FDCWD, path.as_ptr(), want.bits(), found.as_mut_ptr()) } {
        HW_FAILS => Found::Nothing,
        HW_KNOWN => {
            // SAFETY: numbers, a raw pointer and characters are valid with any content, and were zeroed.
            let found = unsafe { found.assume_init_ref() };
            let mut copy = vec![0; 2 * HW_PATH_MAX];
            // SAFETY: on HW_KNOWN the path has path_bytes characters, and out is as long as is asked for.
            let bytes = unsafe { hw_store_path(found.path.as_ptr(), found.path_bytes, copy.as_mut_ptr()) };
            match usize::try_from(bytes) {
                Ok(bytes) => {
                    let copy = copy[..bytes].iter().map(|&c| c as u8).collect();
                    Found::Copy(OsString::from_vec(copy).into())
                }
                Err(_) => Found::Original,
            }
        }
        _ => Found::Original,
    }
}

/// What executing `file` as `name` with `arguments` comes to.
pub fn resolve(file: &Path, name: &OsStr, arguments: &[OsString]) -> Resolved {
    resolve_strings(file, name, arguments).unwrap_or(Resolved::Original)
}

/// `None` if a string has a NUL inside, which no program can be given.
fn resolve_strings(file: &Path, name: &OsStr, arguments: &[OsString]) -> Option<Resolved> {
    let path = CString::new(file.as_os_str().as_bytes()).ok()?;
    let strings = [name].into_iter().chain(arguments.iter().map(OsString::as_os_str));
    let strings = strings.map(|s| CString::new(s.as_bytes())).collect::<Result<Vec<_>, _>>().ok()?;
    let argv: Vec<*const c_char> = strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect();
    let mut argv_out = vec![ptr::null(); argv.len() + EXTRA_ARGUMENTS];
    let mut exec = Box::new(MaybeUninit::<HwExec>::zeroed());
    let mut error = 0;
    // SAFETY: argv ends with NULL; argv_out has the slots that the interface asks for; all live as
    // long as `strings` and `exec`, which outlive this function's use of them.
    let answer = unsafe {
        hw_exec_resolve(
            libc::AT_FDCWD,
            path.as_ptr(),
            argv.as_ptr(),
            exec.as_mut_ptr(),
            argv_out.as_mut_ptr(),
            &raw mut error,
        )
    };
    match answer {
        HW_FAILS => Some(Resolved::Fails(io::Error::from_raw_os_error(error))),
        HW_KNOWN => {
            // SAFETY: arrays of characters are valid with any content, and were zeroed.
            let exec = unsafe { exec.assume_init_ref() };
            let arguments = argv_out.iter().take_while(|p| !p.is_null()).map(|&p| {
                // SAFETY: on HW_KNOWN each is NUL-terminated, in `strings` or in `exec`.
                owned(unsafe { CStr::from_ptr(p) })
            });
            // SAFETY: on HW_KNOWN the file is NUL-terminated.
            let file = owned(unsafe { CStr::from_ptr(exec.file.as_ptr()) });
            Some(Resolved::Copy { file, arguments: arguments.collect() })
        }
        _ => None,
    }
}

fn owned(text: &CStr) -> OsString {
    OsString::from_vec(text.to_bytes().to_vec())
}
