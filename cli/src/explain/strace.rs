//! The output of `strace -f -ttt` as events. With `-T` it has the calls' own times, with `-y` relative paths.

use std::collections::HashMap;
use std::path::PathBuf;

use headwater_closure::recorded::{Call, CallKind, EVENTS_MAX, Event};
use headwater_model::strace_line::{self, number, split};

/// Error numbers by their names.
const ERRORS: [(&str, i32); 9] = [
    ("ENOENT", libc::ENOENT),
    ("ENOTDIR", libc::ENOTDIR),
    ("EACCES", libc::EACCES),
    ("EPERM", libc::EPERM),
    ("ELOOP", libc::ELOOP),
    ("EINVAL", libc::EINVAL),
    ("EEXIST", libc::EEXIST),
    ("ENAMETOOLONG", libc::ENAMETOOLONG),
    ("ENOEXEC", libc::ENOEXEC),
];

/// Returns the events; lines that can't be read are left out.
pub fn events(text: &str) -> Vec<Event> {
    let mut conversion = Conversion::default();
    for line in text.lines() {
        if let Some((process, at_ns, rest)) = split(line)
            && conversion.events.len() < EVENTS_MAX
        {
            let start_ns = *conversion.start_ns.get_or_insert(at_ns);
            conversion.line(process, at_ns.saturating_sub(start_ns), rest);
        }
    }
    conversion.events
}

#[derive(Default)]
struct Conversion {
    events: Vec<Event>,
    start_ns: Option<u64>,
    /// Lines whose end comes later, by process.
    unfinished: HashMap<u32, (u64, String)>,
    /// Paths of open files, by process and descriptor.
    open: HashMap<(u32, u64), PathBuf>,
}

impl Conversion {
    fn line(&mut self, process: u32, at_ns: u64, rest: &str) {
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            self.unfinished.insert(process, (at_ns, begun.trim_end().to_owned()));
            return;
        }
        if let Some(status) = rest.strip_prefix("+++ exited with ") {
            let status = number(status).unwrap_or(0) as u32;
            self.events.push(Event::End { at_ns, process, status });
            return;
        }
        let resumed = rest.strip_prefix("<... ").and_then(|rest| rest.split_once("resumed>"));
        match resumed {
            Some((_, end)) => {
                let (begun_ns, begun) = self.unfinished.remove(&process).unwrap_or_default();
                self.call(process, begun_ns, &(begun + end));
            }
            None => self.call(process, at_ns, rest),
        }
    }

    fn call(&mut self, process: u32, at_ns: u64, text: &str) {
        let Some((name, rest)) = text.split_once('(') else { return };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { return };
        let descriptor = number(arguments);
        let of_file = |all: &HashMap<(u32, u64), PathBuf>| all.get(&(process, descriptor?)).cloned();
        let value = number(result);
        let (kind, path, size) = match name {
            "open" | "openat" | "openat2" | "creat" => {
                let writes = ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| arguments.contains(flag));
                (if writes { CallKind::Write } else { CallKind::Open }, path(arguments), 0)
            }
            "execve" | "execveat" => (CallKind::Execute, path(arguments), 0),
            "newfstatat" | "statx" if arguments.contains("\"\"") => return,
            "stat" | "lstat" | "newfstatat" | "statx" | "access" | "faccessat" | "faccessat2" => {
                (CallKind::Stat, path(arguments), 0)
            }
            "readlink" | "readlinkat" => (CallKind::Link, path(arguments), 0),
            "read" | "pread64" => (CallKind::Read, of_file(&self.open), value.unwrap_or(0)),
            "getdents64" => {
                let names = arguments.split_once("/* ").and_then(|(_, rest)| number(rest)).unwrap_or(0);
                (CallKind::List, of_file(&self.open), names)
            }
            "mmap" => {
                let words: Vec<&str> = arguments.split(", ").collect();
                let file = words.get(4).and_then(|word| self.open.get(&(process, number(word)?)).cloned());
                let is_code = words.get(2).is_some_and(|word| word.contains("PROT_EXEC"));
                let kind = if is_code { CallKind::Load } else { CallKind::Map };
                (kind, file, words.get(1).and_then(|word| number(word)).unwrap_or(0))
            }
            "clone" | "clone3" | "fork" | "vfork" => {
                let is_thread = arguments.contains("CLONE_THREAD");
                if let Some(child) = value.filter(|_| !is_thread) {
                    self.events.push(Event::Begin { at_ns, process: child as u32, parent: process });
                }
                return;
            }
            _ => return,
        };
        let Some(path) = path else { return };
        let errno = errno(result);
        if let (CallKind::Open | CallKind::Write, Some(descriptor)) = (kind, value) {
            self.open.insert((process, descriptor), path.clone());
        }
        let length_ns = own_time(result);
        if kind == CallKind::Execute && errno == 0 {
            self.events.push(Event::Image { at_ns, process, path: path.clone() });
        }
        self.events.push(Event::Call(Call { at_ns, length_ns, process, kind, errno, size, path }));
    }
}

/// Returns the error number of a result; 0 for success.
fn errno(result: &str) -> u32 {
    let Some(rest) = result.trim_start().strip_prefix("-1 ") else { return 0 };
    let name = rest.split(' ').next().unwrap_or_default();
    ERRORS.iter().find(|(other, _)| *other == name).map_or(libc::EIO as u32, |(_, number)| *number as u32)
}

/// Returns the nanoseconds of a call, which `-T` writes at a line's end.
fn own_time(result: &str) -> u64 {
    let seconds = result.rsplit_once('<').and_then(|(_, end)| end.strip_suffix('>')?.parse::<f64>().ok());
    seconds.filter(|seconds| (0.0..1e6).contains(seconds)).map_or(0, |seconds| (seconds * 1e9) as u64)
}

fn path(arguments: &str) -> Option<PathBuf> {
    strace_line::path(arguments).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"
7 100.000000 execve("/sw/bin/app", ["app"], 0x7ffe /* 9 vars */) = 0 <0.000100>
7 100.002000 openat(AT_FDCWD, "/sw/lib64/libx.so.1", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory) <0.000010>
7 100.002500 openat(AT_FDCWD, "/sw/lib/libx.so.1", O_RDONLY|O_CLOEXEC) = 3
7 100.002600 read(3, "\177ELF"..., 832) = 832
7 100.002650 mmap(NULL, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE|MAP_DENYWRITE, 3, 0) = 0x7f
7 100.003000 openat(AT_FDCWD, "/sw/py", O_RDONLY|O_DIRECTORY <unfinished ...>
8 100.003100 newfstatat(AT_FDCWD</sw>, "py/a.py", {st_mode=S_IFREG|0644, st_size=9, ...}, 0) = 0
7 100.003200 <... openat resumed>) = 4
7 100.003300 getdents64(4, 0x55d /* 12 entries */, 32768) = 400
7 100.503400 +++ exited with 3 +++
"#;

    #[test]
    fn lines_become_events() {
        assert!(strace_line::is_strace(LINES) && !strace_line::is_strace("0.5 open 12 /sw/a = b\n"));
        let events: Vec<String> = events(LINES).iter().map(ToString::to_string).collect();
        let expected = [
            "image 0 7 /sw/bin/app",
            "call 0 100000 7 execute 0 0 /sw/bin/app",
            "call 2000000 10000 7 open 2 0 /sw/lib64/libx.so.1",
            "call 2500000 0 7 open 0 0 /sw/lib/libx.so.1",
            "call 2600000 0 7 read 0 832 /sw/lib/libx.so.1",
            "call 2650000 0 7 load 0 4096 /sw/lib/libx.so.1",
            "call 3100000 0 8 stat 0 0 /sw/py/a.py",
            "call 3000000 0 7 open 0 0 /sw/py",
            "call 3300000 0 7 list 0 12 /sw/py",
            "end 503400000 7 3",
        ];
        assert_eq!(events, expected);
    }
}
