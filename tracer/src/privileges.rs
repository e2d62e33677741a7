//! Privileges that a file gives to the program that is executed from it, and what tracing does to them.
//!
//! The kernel doesn't give them to a process whose tracer has no such right itself. It doesn't either to a process
//! that has given up further privileges, which an ordinary user's process must do before it installs a filter.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libc::pid_t;

const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;

/// Returns whether executing a file gives privileges: by set-ID bits, or by capabilities.
pub fn gives_privileges(file: &Path) -> bool {
    let Ok(found) = fs::metadata(file) else { return false };
    let mode = found.mode();
    let is_set_id =
        mode & libc::S_ISUID != 0 || mode & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP;
    (is_set_id || has_capabilities(file)) && !is_script(file) && !is_without_privileges(file)
}

/// As [`gives_privileges`], for a path of another process, which may have another root directory.
pub(crate) fn gives_privileges_to(process: pid_t, file: &Path) -> bool {
    gives_privileges(
        &[Path::new(&format!("/proc/{process}/root")), file.strip_prefix("/").unwrap_or(file)]
            .iter()
            .collect::<PathBuf>(),
    )
}

/// Returns whether programs lose no privileges by a filter and by being traced by this process: there are none to
/// lose, or it may trace all.
pub(crate) fn survive_filter() -> bool {
    // SAFETY: it only returns a number.
    let has_given_up = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } == 1;
    has_given_up || has_rights(1 << CAP_SYS_ADMIN | 1 << CAP_SYS_PTRACE)
}

/// Returns whether this process has all of these capabilities.
fn has_rights(wanted: u64) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|effective| effective & wanted == wanted)
}

fn has_capabilities(file: &Path) -> bool {
    let Ok(path) = CString::new(file.as_os_str().as_bytes()) else { return false };
    let name = c"security.capability";
    // SAFETY: both strings end with zero, and nothing is written: the size is zero.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// Returns whether a file is a script, whose bits the kernel ignores. One that can't be read may be a program.
fn is_script(file: &Path) -> bool {
    let mut start = [0; 2];
    File::open(file).is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && &start == b"#!")
}

/// Returns whether the file lies on a mount that gives no privileges.
fn is_without_privileges(file: &Path) -> bool {
    let Ok(path) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: the structure is valid when all of it is zero, and the kernel writes to it alone.
    unsafe {
        let mut found = std::mem::zeroed::<libc::statvfs>();
        libc::statvfs(path.as_ptr(), &raw mut found) == 0 && found.f_flag & libc::ST_NOSUID != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_come_from_bits_and_capabilities() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        // Where mounts of temporary files give none, there is nothing to see.
        let can = !is_without_privileges(&file);
        for (mode, expected) in [(0o755, false), (0o4755, true), (0o2755, true), (0o2745, false)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(gives_privileges(&file), expected && can, "{mode:o}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        // Only root may give capabilities.
        let set = std::process::Command::new("setcap").arg("cap_net_raw+ep").arg(&file).status();
        assert_eq!(gives_privileges(&file), set.is_ok_and(|set| set.success()) && can);
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(!gives_privileges(&file), "bits of scripts are ignored");
        assert!(!gives_privileges_to(std::process::id() as pid_t, Path::new("/bin/sh")));
    }
}
