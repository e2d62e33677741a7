//! Bindings of the audit library's look-ups in C (`shim/audit/`). They read a node's table, and request missing records
//! from its daemon.

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::ptr;

use crate::launch::TABLE;

/// The resolution of a file to execute.
#[derive(Debug)]
pub enum Resolved {
    /// Execute the source file.
    Original,
    /// The file can't be executed.
    Fails(io::Error),
    /// Execute a copy instead.
    Copy {
        /// The copy in the store, or a script's interpreter.
        file: OsString,
        /// The arguments, the program's name among them.
        arguments: Vec<OsString>,
    },
}

const HWA_PATH_MAX: usize = 4096;
/// `enum hwa_answer` of `shim.h`.
const HWA_FAILS: c_int = 1;
const HWA_KNOWN: c_int = 2;
/// `enum hwa_counter` of `shim.h`.
const HWA_COUNT_FALLBACKS: c_int = 3;
/// `enum hwa_manner` of `shim.h`.
const HWA_SILENT: c_int = 2;
const HWA_COMPLAINS: c_int = 3;
/// `HWA_LINE_BYTES` of `shim.h`.
const LINE_BYTES: usize = 256;

unsafe extern "C" {
    fn hwa_attach(envp: *const *const c_char);
    fn hwa_attached() -> bool;
    fn hwa_count(counter: c_int);
    fn hwa_give_up();
    fn hwa_exec_copy(
        path: *const c_char,
        argv: *const *const c_char,
        file: *mut c_char,
        line: *mut c_char,
        interpreter: *mut *const c_char,
        argument: *mut *const c_char,
        error: *mut c_int,
    ) -> c_int;
    fn hwa_manner_of(dirfd: c_int, path: *const c_char) -> c_int;
    fn hwa_announce_unaudited();
}

/// Attaches `table`, unless one is attached. Without a table, files resolve to source files.
pub fn attach(table: &Path) {
    let Ok(variable) = CString::new([TABLE.as_bytes(), b"=", table.as_os_str().as_bytes()].concat()) else { return };
    let envp = [variable.as_ptr(), ptr::null()];
    // SAFETY: envp ends with NULL, and its string lives until the function returns; it keeps neither.
    unsafe { hwa_attach(envp.as_ptr()) };
}

/// Counts in this table that this process uses source files from now on.
pub fn count_fallback(table: &Path) {
    attach(table);
    // SAFETY: without a table, counting does nothing.
    unsafe { hwa_count(HWA_COUNT_FALLBACKS) };
    // SAFETY: it only detaches the table.
    unsafe { hwa_give_up() };
}

/// Resolves `file`, to be executed as `name` with `arguments`.
pub fn resolve(file: &Path, name: &OsStr, arguments: &[OsString]) -> Resolved {
    resolve_strings(file, name, arguments).unwrap_or(Resolved::Original)
}

/// Notifies the node that this source file is executed, if it is a program that can't be audited. Returns whether its
/// loader would complain about the audit library.
pub fn note(file: &Path) -> bool {
    let Ok(path) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: it touches nothing of ours.
    if !unsafe { hwa_attached() } {
        return false;
    }
    // SAFETY: the path is NUL-terminated and lives until the call has returned, which keeps nothing of it.
    let manner = unsafe { hwa_manner_of(libc::AT_FDCWD, path.as_ptr()) };
    if manner >= HWA_SILENT {
        // SAFETY: there is a table.
        unsafe { hwa_announce_unaudited() };
    }
    manner == HWA_COMPLAINS
}

/// Returns `None` if a string contains a NUL.
fn resolve_strings(file: &Path, name: &OsStr, arguments: &[OsString]) -> Option<Resolved> {
    let path = CString::new(file.as_os_str().as_bytes()).ok()?;
    let strings = [name].into_iter().chain(arguments.iter().map(OsString::as_os_str));
    let strings = strings.map(|s| CString::new(s.as_bytes())).collect::<Result<Vec<_>, _>>().ok()?;
    let argv: Vec<*const c_char> = strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect();
    let (mut copy, mut line) = (vec![0; 2 * HWA_PATH_MAX], [0; LINE_BYTES]);
    let (mut interpreter, mut argument) = (ptr::null(), ptr::null());
    let mut error = 0;
    // SAFETY: argv ends with NULL, `copy` and `line` are as long as the interface asks for, and all live until it
    // returns.
    let answer = unsafe {
        hwa_exec_copy(
            path.as_ptr(),
            argv.as_ptr(),
            copy.as_mut_ptr(),
            line.as_mut_ptr(),
            &raw mut interpreter,
            &raw mut argument,
            &raw mut error,
        )
    };
    match answer {
        HWA_FAILS => Some(Resolved::Fails(io::Error::from_raw_os_error(error))),
        HWA_KNOWN => {
            // A script's interpreter gets the script's path in place of the name.
            let of_script = [owned(interpreter), owned(argument)];
            let name = if interpreter.is_null() { name } else { file.as_os_str() };
            let given = [name.to_owned()].into_iter().chain(arguments.iter().cloned());
            Some(Resolved::Copy {
                file: owned(copy.as_ptr())?,
                arguments: of_script.into_iter().flatten().chain(given).collect(),
            })
        }
        _ => None,
    }
}

/// Copies a text of [`hwa_exec_copy`], if there is one.
fn owned(text: *const c_char) -> Option<OsString> {
    // SAFETY: what is not NULL is NUL-terminated, in an array of the caller's.
    (!text.is_null()).then(|| OsString::from_vec(unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()))
}
