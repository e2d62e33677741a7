//! Starts this program again, from a copy in memory if its file is on a shared file system.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use headwater_closure::elf;
use headwater_closure::scope::network_file_system;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

/// The executable of this process, even if its path has changed.
const RUNNING: &str = "/proc/self/exe";
/// Bytes at the start that contain the headers of mapped ranges.
const HEADERS_BYTES_MAX: u64 = 4096;
/// The prefix and suffix of a memory file's name in /proc.
const IN_MEMORY: (&[u8], &[u8]) = (b"/memfd:", b" (deleted)");

/// Returns the path of the installed program.
///
/// # Errors
/// `/proc` can't be read.
pub fn installed() -> io::Result<PathBuf> {
    std::env::current_exe().map(|running| original(&running).unwrap_or(running))
}

/// Returns a command that starts this program again. If its file is on a shared file system, this process and its
/// descendants start a copy in memory, so the file is opened once.
pub fn command() -> Command {
    static COPY: OnceLock<Option<File>> = OnceLock::new();
    let copy = || network_file_system(Path::new(RUNNING)).and_then(|_| copy().ok());
    let file = match COPY.get_or_init(copy) {
        Some(copy) => format!("/proc/self/fd/{}", copy.as_raw_fd()).into(),
        None => std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or_else(|| RUNNING.into()),
    };
    let mut command = Command::new(file);
    command.arg0("headwater");
    command
}

/// Makes a copy in memory, named by the source file's path.
fn copy() -> io::Result<File> {
    let name = installed()?;
    let flags = MemfdFlags::CLOEXEC;
    let memory = match memfd_create(name.as_os_str(), flags | MemfdFlags::EXEC) {
        // Before Linux 6.3 all memory files can be executed.
        Err(Errno::INVAL) => memfd_create(name.as_os_str(), flags),
        made => made,
    };
    let mut copy = File::from(memory?);
    let mut source = File::open(RUNNING)?;
    let bytes = source.metadata()?.len();
    let mut start = Vec::new();
    (&source).take(HEADERS_BYTES_MAX).read_to_end(&mut start)?;
    // Skips ranges that no loader maps, such as debugging symbols.
    let ranges = elf::inspect(&start, bytes).map_or_else(|| vec![(0, bytes)], |object| object.ranges);
    for (offset, bytes) in ranges {
        source.seek(SeekFrom::Start(offset))?;
        copy.seek(SeekFrom::Start(offset))?;
        io::copy(&mut (&source).take(bytes), &mut copy)?;
    }
    copy.set_len(bytes)?;
    // A file that is open for writing can't be executed.
    File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))
}

/// Returns the path from which a memory file was copied.
fn original(running: &Path) -> Option<PathBuf> {
    let name = running.as_os_str().as_bytes().strip_prefix(IN_MEMORY.0)?.strip_suffix(IN_MEMORY.1)?;
    Some(OsStr::from_bytes(name).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_in_memory_is_the_same_program_and_knows_where_it_is_from() {
        let copy = copy().unwrap();
        let running = std::fs::read_link(format!("/proc/self/fd/{}", copy.as_raw_fd())).unwrap();
        assert_eq!(original(&running), Some(installed().unwrap()), "{}", running.display());
        assert_eq!(original(Path::new("/opt/headwater")), None);
        let mut command = Command::new(format!("/proc/self/fd/{}", copy.as_raw_fd()));
        let output = command.arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("a_copy_in_memory"), "{output:?}");
    }
}
