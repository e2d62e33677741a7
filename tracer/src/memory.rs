//! Reads of a stopped process: its memory, its descriptors and its mappings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use libc::pid_t;

/// The kernel's limit of a path, with its NUL.
const PATH_BYTES_MAX: usize = 4096;
/// Pages have at least so many bytes; a read doesn't cross such a border, so it fails only where it begins.
const PAGE_BYTES: usize = 4096;

/// Reads bytes of a process into `to`; returns how many were read.
pub(crate) fn read(process: pid_t, address: u64, to: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: to.len() };
    // SAFETY: the kernel writes to `to` alone, at most its length; the other address is of another process.
    let bytes = unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(bytes).unwrap_or(0)
}

/// Reads a string that ends with a NUL; `None` if it can't be read or is too long.
pub(crate) fn string(process: pid_t, mut address: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < PATH_BYTES_MAX {
        let mut part = [0; 256];
        let border = PAGE_BYTES - address as usize % PAGE_BYTES;
        let length = part.len().min(border);
        let got = read(process, address, &mut part[..length]);
        if got == 0 {
            return None;
        }
        if let Some(end) = part[..got].iter().position(|&byte| byte == 0) {
            bytes.extend(&part[..end]);
            return Some(bytes);
        }
        bytes.extend(&part[..got]);
        address += got as u64;
    }
    None
}

/// Returns the absolute path that a process names by a descriptor of a directory and a string; `None` if it is unknown
/// or empty.
pub(crate) fn path(process: pid_t, directory: i32, name: &[u8]) -> Option<PathBuf> {
    if name.starts_with(b"/") {
        return Some(plain(name));
    }
    let base = if directory == libc::AT_FDCWD {
        fs::read_link(format!("/proc/{process}/cwd")).ok()?
    } else {
        descriptor(process, directory)?
    };
    if name.is_empty() || !base.is_absolute() {
        return None;
    }
    Some(plain(base.join(OsString::from_vec(name.to_vec())).as_os_str().as_bytes()))
}

/// Returns a path without empty components and those that are a point.
fn plain(path: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(path.len());
    for part in path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
        plain.push(b'/');
        plain.extend(part);
    }
    if plain.is_empty() {
        plain.push(b'/');
    }
    PathBuf::from(OsString::from_vec(plain))
}

/// Returns the path of an open file; `None` for what has none in a file system, such as a pipe, and for devices.
pub(crate) fn descriptor(process: pid_t, number: i32) -> Option<PathBuf> {
    let target = fs::read_link(format!("/proc/{process}/fd/{number}")).ok()?;
    let bytes = target.as_os_str().as_bytes();
    let is_other =
        [&b"/dev/pts/"[..], b"/dev/tty", b"/dev/null", b"/memfd:"].iter().any(|prefix| bytes.starts_with(prefix));
    (bytes.starts_with(b"/") && !is_other).then_some(target)
}

/// Returns the number of names in what `getdents64` has written.
pub(crate) fn names(process: pid_t, address: u64, bytes: usize) -> u64 {
    const LENGTH: usize = 16;
    let mut buffer = vec![0; bytes.min(1 << 20)];
    let bytes = read(process, address, &mut buffer);
    let (mut at, mut names) = (0, 0);
    while at + LENGTH + 2 <= bytes {
        let length = usize::from(u16::from_ne_bytes([buffer[at + LENGTH], buffer[at + LENGTH + 1]]));
        if length == 0 {
            break;
        }
        names += 1;
        at += length;
    }
    names
}

/// Returns the bytes of each mapped file that are in the memory of a process.
pub(crate) fn resident(process: pid_t) -> BTreeMap<PathBuf, u64> {
    let mut files = BTreeMap::new();
    let Ok(text) = fs::read(format!("/proc/{process}/smaps")) else { return files };
    let mut file: Option<PathBuf> = None;
    for line in text.split(|&byte| byte == b'\n') {
        if let Some(rest) = line.strip_prefix(b"Rss:") {
            let digits: String = rest.iter().filter(|b| b.is_ascii_digit()).map(|&b| char::from(b)).collect();
            if let (Some(file), Ok(kilobytes)) = (&file, digits.parse::<u64>()) {
                *files.entry(file.clone()).or_default() += kilobytes * 1024;
            }
        } else if line.first().is_some_and(u8::is_ascii_hexdigit) && !line.first().is_some_and(u8::is_ascii_uppercase) {
            // A mapping: its path is what begins with the first slash.
            let at = line.iter().position(|&byte| byte == b'/');
            let is_file = |path: &&[u8]| !path.ends_with(b" (deleted)") && !path.starts_with(b"/dev/");
            file =
                at.map(|at| &line[at..]).filter(is_file).map(|path| PathBuf::from(OsString::from_vec(path.to_vec())));
        }
    }
    files
}

/// Returns the file of the program that a process runs.
pub(crate) fn program(process: pid_t) -> PathBuf {
    fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default()
}

/// Returns the process to which a thread belongs.
pub(crate) fn process_of(thread: pid_t) -> pid_t {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(thread)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn paths_are_plain() {
        for (path, expected) in [("/a//b/./c", "/a/b/c"), ("/", "/"), ("/a/../b", "/a/../b"), ("//", "/")] {
            assert_eq!(plain(path.as_bytes()), Path::new(expected));
        }
    }

    #[test]
    fn this_process_is_read() {
        let own = std::process::id() as pid_t;
        let text = c"/sw/lib";
        assert_eq!(string(own, text.as_ptr() as u64).as_deref(), Some(&b"/sw/lib"[..]));
        assert_eq!(string(own, 8), None);
        let executable = std::env::current_exe().unwrap();
        assert!(resident(own).get(&executable).is_some_and(|&bytes| bytes > 0));
        assert_eq!(process_of(own), own);
    }
}
