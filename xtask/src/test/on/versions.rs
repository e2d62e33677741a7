//! Which programs a system has.

use std::path::Path;

use anyhow::Result;

use crate::roots::Root;
use crate::shell::Shell;

/// Those whose versions differ between systems, and how each reports its own.
pub const PROGRAMS: [(&str, &str); 6] = [
    ("glibc", "ldd --version"),
    ("Python", "python3 --version"),
    ("gcc", "gcc -dumpfullversion"),
    ("Open MPI", "mpirun.openmpi --version"),
    ("MPICH", "mpichversion"),
    ("gdb", "gdb --version"),
];

/// Their versions in a root; a dash for what it hasn't.
pub fn of(shell: &Shell, root: &Root<'_>) -> Result<Vec<String>> {
    let one = |(_, command): &(&str, &str)| {
        let text =
            shell.run(root.command("sh", Path::new("/")).args(["-c", &format!("{command} 2>/dev/null || :")]))?;
        Ok(version(&text).unwrap_or("–").to_owned())
    };
    PROGRAMS.iter().map(one).collect()
}

/// The last word of the first line that is a number with a dot.
fn version(text: &str) -> Option<&str> {
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    text.lines().next()?.split_whitespace().rev().find(is_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_first_lines() {
        assert_eq!(version("ldd (Debian GLIBC 2.31-13+deb11u11) 2.31\nCopyright"), Some("2.31"));
        assert_eq!(version("Python 3.14.0rc2"), Some("3.14.0rc2"));
        assert_eq!(version("mpirun.openmpi (Open MPI) 4.1.0\n\nReport bugs"), Some("4.1.0"));
        assert_eq!(version("GNU gdb (Debian 16.3-1) 16.3"), Some("16.3"));
        assert_eq!(version(""), None);
    }
}
