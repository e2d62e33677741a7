//! Counting, in a log of strace, a process's calls on one directory tree.

/// System calls by which a process makes a file server work, as an argument of `strace -e`.
pub const CALLS: &str = "trace=execve,open,openat,openat2,stat,lstat,newfstatat,statx,access,faccessat,faccessat2,\
    readlink,readlinkat,getdents64";

/// The calls on the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Calls that name a path in the tree or read one of its directories.
    pub all: u64,
    /// Those that found nothing.
    pub absent: u64,
}

impl std::ops::AddAssign for Operations {
    fn add_assign(&mut self, other: Operations) {
        self.all += other.all;
        self.absent += other.absent;
    }
}

/// Counts in one thread's log, as `strace -ff -y` writes it, the calls on `directory` and what lies below it.
pub fn count(log: &str, directory: &str) -> Operations {
    let mut operations = Operations::default();
    for line in log.lines().filter(|line| concerns(line, directory)) {
        operations.all += 1;
        operations.absent += u64::from(line.contains(" = -1 ENOENT"));
    }
    operations
}

/// A call on an open file itself (an empty path, or none) stays within the process's node.
fn concerns(line: &str, directory: &str) -> bool {
    let Some((call, arguments)) = line.split_once('(') else { return false };
    let descriptor = arguments.split_once('<').and_then(|(before, rest)| {
        let names = before.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        names.then(|| rest.split('>').next()).flatten()
    });
    let path = arguments.split('"').nth(1);
    let is_within =
        |path: &str| path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match (path, descriptor) {
        // A directory's end is read again, from the result of the first call.
        _ if call.ends_with("getdents64") => descriptor.is_some_and(is_within) && !line.ends_with(" = 0"),
        (Some(path), _) if path.starts_with('/') => is_within(path),
        (Some(path), Some(base)) => !path.is_empty() && is_within(base),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_on_the_tree_and_no_others() {
        let check = |line: &str, expected: bool| assert_eq!(concerns(line, "/sw"), expected, "{line}");
        check(r#"openat(AT_FDCWD</home/u>, "/sw/lib/a.so", O_RDONLY|O_CLOEXEC) = 3</sw/lib/a.so>"#, true);
        check(r#"openat(AT_FDCWD</sw/bin>, "a.so", O_RDONLY) = -1 ENOENT (No such file)"#, true);
        check(r#"openat(AT_FDCWD</home/u>, "/swap/a.so", O_RDONLY) = 3</swap/a.so>"#, false);
        check(r#"newfstatat(3</sw/lib/a.so>, "", {st_mode=S_IFREG|0644, ...}, AT_EMPTY_PATH) = 0"#, false);
        check(r#"newfstatat(3</sw/lib>, "a.so", {st_mode=S_IFREG|0644, ...}, 0) = 0"#, true);
        check(r#"getdents64(3</sw/lib>, 0x55 /* 3 entries */, 32768) = 80"#, true);
        check(r#"getdents64(3</sw/lib>, 0x55 /* 0 entries */, 32768) = 0"#, false);
        check(r#"getdents64(3</usr/lib>, 0x55 /* 3 entries */, 32768) = 80"#, false);
        check(r#"execve("/sw/bin/python3", ["/sw/bin/python3"], 0x7 /* 9 vars */) = 0"#, true);
        check("+++ exited with 0 +++", false);
    }

    #[test]
    fn absent_names_are_counted_apart() {
        let log = "stat(\"/sw/a\", 0x1) = -1 ENOENT (No such file or directory)\nstat(\"/sw\", {...}) = 0\n";
        assert_eq!(count(log, "/sw"), Operations { all: 2, absent: 1 });
    }
}
