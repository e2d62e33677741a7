//! The output of `strace -f -ttt` of one run, as a trace.
//!
//! Computing is the time from the end of one line to the next of the same process; several processes are put
//! one behind the other in the order of their lines. Relative paths are known only if strace wrote
//! descriptors' paths (`-y`). Paths of the machine itself are left out, unless their directory is named.

use std::collections::BTreeMap;

use headwater_abi::Path;

use super::lookups::{Kind, Lookup, Trace};
use super::strace_line::{self, number, split};

/// Directories of the machine itself.
const LOCAL: [&str; 8] = ["/proc", "/sys", "/dev", "/run", "/tmp", "/var", "/etc", "/boot"];
/// Error numbers of an absent path.
const ABSENT: [&str; 2] = ["ENOENT", "ENOTDIR"];
/// Longer pauses are not the program's own: the user's, or a child's.
const PAUSE_NS_MAX: u64 = 2_000_000_000;

#[derive(Default)]
struct Conversion<'a> {
    /// Directories whose look-ups are retained; without any, all but the machine's own.
    shared: &'a [Path],
    trace: Trace,
    /// The look-ups of open files, by process and descriptor.
    open: BTreeMap<(u32, u64), usize>,
    /// Lines whose end comes later, by process.
    unfinished: BTreeMap<u32, String>,
    /// The end of the last line, by process.
    last_ns: BTreeMap<u32, u64>,
    waited_ns: u64,
}

pub(super) fn convert(text: &str, shared: &[Path]) -> Trace {
    let mut conversion = Conversion { shared, ..Conversion::default() };
    for line in text.lines() {
        if let Some((process, at_ns, rest)) = split(line) {
            conversion.line(process, at_ns, rest);
        }
    }
    let Conversion { mut trace, waited_ns, .. } = conversion;
    trace.after_ns = waited_ns;
    trace
}

impl Conversion<'_> {
    fn line(&mut self, process: u32, at_ns: u64, rest: &str) {
        let before = self.last_ns.insert(process, at_ns).unwrap_or(at_ns);
        let pause_ns = at_ns.saturating_sub(before);
        if pause_ns <= PAUSE_NS_MAX {
            self.waited_ns += pause_ns;
        }
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            self.unfinished.insert(process, begun.trim_end().to_owned());
            return;
        }
        let resumed = rest.strip_prefix("<... ").and_then(|rest| rest.split_once("resumed>"));
        match resumed {
            Some((_, end)) => {
                let begun = self.unfinished.remove(&process).unwrap_or_default();
                self.call(process, &(begun + end));
            }
            None => self.call(process, rest),
        }
    }

    fn call(&mut self, process: u32, text: &str) {
        let Some((name, rest)) = text.split_once('(') else { return };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { return };
        match name {
            "open" | "openat" | "openat2" => self.opened(process, arguments, result),
            "execve" | "execveat" => {
                if let Some(path) = path(arguments).filter(|_| result.starts_with('0')) {
                    self.push(Kind::Open, path, 0);
                }
            }
            "stat" | "lstat" | "newfstatat" | "statx" | "access" | "faccessat" | "faccessat2" | "readlink"
            | "readlinkat" => self.looked_up(process, arguments, result),
            "fstat" => self.sized(process, arguments),
            "read" | "pread64" => self.grown(process, arguments, result),
            "mmap" => self.mapped(process, arguments),
            "getdents64" => self.listed(process, arguments),
            "close" => {
                if let Some(descriptor) = number(arguments) {
                    self.open.remove(&(process, descriptor));
                }
            }
            _ => {}
        }
    }

    fn opened(&mut self, process: u32, arguments: &str, result: &str) {
        let Some(path) = path(arguments) else { return };
        let writes = ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| arguments.contains(flag));
        if let Some(descriptor) = number(result) {
            let kind = if arguments.contains("O_DIRECTORY") {
                Kind::List
            } else if is_library(&path) {
                Kind::Load
            } else {
                Kind::Open
            };
            let lookup = self.trace.lookups.len();
            if !writes && self.push(kind, path, 0) {
                self.open.insert((process, descriptor), lookup);
            } else {
                self.open.remove(&(process, descriptor));
            }
        } else if ABSENT.iter().any(|error| result.contains(error)) && !writes {
            self.push(Kind::Absent, path, 0);
        }
    }

    fn looked_up(&mut self, process: u32, arguments: &str, result: &str) {
        let is_own = arguments.contains("\"\"") && arguments.contains("AT_EMPTY_PATH");
        if is_own {
            self.sized(process, arguments);
        } else if let Some(path) = path(arguments) {
            if number(result).is_some() {
                self.push(Kind::Stat, path, 0);
            } else if ABSENT.iter().any(|error| result.contains(error)) {
                self.push(Kind::Absent, path, 0);
            }
        }
    }

    /// Returns the look-up of the open file whose descriptor this text begins with.
    fn file(&mut self, process: u32, descriptor: &str) -> Option<&mut Lookup> {
        let lookup = *self.open.get(&(process, number(descriptor)?))?;
        Some(&mut self.trace.lookups[lookup])
    }

    /// Takes a file's size, and whether it is a directory, from a descriptor's attributes.
    fn sized(&mut self, process: u32, arguments: &str) {
        let Some(lookup) = self.file(process, arguments) else { return };
        if arguments.contains("S_IFDIR") {
            lookup.kind = Kind::List;
        } else if let Some((_, size)) = arguments.split_once("st_size=") {
            lookup.size = number(size).unwrap_or(0);
        }
    }

    /// Sets a file's size to what was read of it, if no size was seen.
    fn grown(&mut self, process: u32, arguments: &str, result: &str) {
        if let (Some(lookup), Some(bytes)) = (self.file(process, arguments), number(result)) {
            lookup.size = lookup.size.max(bytes);
        }
    }

    fn mapped(&mut self, process: u32, arguments: &str) {
        let words: Vec<&str> = arguments.split(", ").collect();
        if let (Some(bytes), Some(descriptor)) = (words.get(1), words.get(4))
            && let (Some(bytes), Some(lookup)) = (number(bytes), self.file(process, descriptor))
            && lookup.size == 0
        {
            lookup.size = bytes;
        }
    }

    fn listed(&mut self, process: u32, arguments: &str) {
        let Some(lookup) = self.file(process, arguments) else { return };
        let names = arguments.split_once("/* ").and_then(|(_, rest)| number(rest)).unwrap_or(0);
        (lookup.kind, lookup.size) = (Kind::List, lookup.size + names);
    }

    /// Adds a look-up; false if the path is left out.
    fn push(&mut self, kind: Kind, path: Path, size: u64) -> bool {
        let is_left_out = match self.shared {
            [] => is_local(&path),
            shared => !shared.iter().any(|directory| path.is_within(directory)),
        };
        if is_left_out || path.components().any(|component| component == b"..") {
            return false;
        }
        let before_ns = std::mem::take(&mut self.waited_ns);
        self.trace.lookups.push(Lookup { kind, path, size, before_ns });
        true
    }
}

/// Returns whether a path is in a directory of the machine itself, such as `/tmp`.
pub fn is_local(path: &Path) -> bool {
    LOCAL.iter().any(|local| Path::new(local.as_bytes()).is_some_and(|local| path.is_within(&local)))
}

fn path(arguments: &str) -> Option<Path> {
    Path::new(strace_line::path(arguments)?.as_bytes())
}

fn is_library(path: &Path) -> bool {
    let name = path.name();
    name.ends_with(b".so") || name.windows(4).any(|window| window == b".so.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"
7 100.000000 execve("/sw/bin/app", ["app"], 0x7ffe /* 9 vars */) = 0
7 100.001000 openat(AT_FDCWD, "/etc/ld.so.cache", O_RDONLY|O_CLOEXEC) = 3
7 100.002000 openat(AT_FDCWD, "/sw/lib64/libx.so.1", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)
7 100.002500 openat(AT_FDCWD, "/sw/lib/libx.so.1", O_RDONLY|O_CLOEXEC) = 3
7 100.002600 read(3, "\177ELF"..., 832) = 832
7 100.002700 fstat(3, {st_mode=S_IFREG|0755, st_size=123456, ...}) = 0
7 100.002800 close(3) = 0
7 100.003000 openat(AT_FDCWD, "/sw/py", O_RDONLY|O_NONBLOCK|O_CLOEXEC|O_DIRECTORY <unfinished ...>
8 100.003100 newfstatat(AT_FDCWD</sw>, "py/a.py", {st_mode=S_IFREG|0644, st_size=9, ...}, 0) = 0
7 100.003200 <... openat resumed>) = 4
7 100.003300 getdents64(4, 0x55d /* 12 entries */, 32768) = 400
7 100.003400 getdents64(4, 0x55d /* 0 entries */, 32768) = 0
7 100.503400 +++ exited with 0 +++
"#;

    #[test]
    fn calls_become_look_ups() {
        assert!(strace_line::is_strace(LINES) && !strace_line::is_strace("0.5 open 12 /sw/a = b\n"));
        let trace = convert(LINES, &[]);
        let found: Vec<(Kind, String, u64, u64)> =
            trace.lookups.iter().map(|l| (l.kind, l.path.to_string(), l.size, l.before_ns / 1000)).collect();
        let expected = [
            (Kind::Open, "/sw/bin/app", 0, 0),
            (Kind::Absent, "/sw/lib64/libx.so.1", 0, 2000),
            (Kind::Load, "/sw/lib/libx.so.1", 123_456, 500),
            (Kind::Stat, "/sw/py/a.py", 0, 500),
            (Kind::List, "/sw/py", 12, 200),
        ];
        assert_eq!(found, expected.map(|(kind, path, size, us)| (kind, path.to_owned(), size, us)));
        assert_eq!(trace.after_ns, 500_200_000);
    }

    #[test]
    fn named_directories_may_be_the_machines() {
        let line = "1.000000 stat(\"/tmp/sw/a\", {}) = 0\n1.000001 stat(\"/usr/a\", {}) = 0\n";
        let paths =
            |shared: &[Path]| convert(line, shared).lookups.iter().map(|l| l.path.to_string()).collect::<Vec<_>>();
        assert_eq!(paths(&[]), ["/usr/a"]);
        assert_eq!(paths(&[Path::new(b"/tmp/sw").unwrap()]), ["/tmp/sw/a"]);
    }

    #[test]
    fn other_forms_of_lines() {
        for line in ["1.000000 stat(\"/sw/a\", {}) = 0", "[pid   12] 1.000000 stat(\"/sw/a\", {}) = 0"] {
            assert_eq!(convert(line, &[]).lookups.len(), 1, "{line}");
        }
        assert_eq!(convert("x\n1.5 y\n7 1.000000 openat(AT_FDCWD, \"rel\", O_RDONLY) = 3\n", &[]).lookups.len(), 0);
    }
}
