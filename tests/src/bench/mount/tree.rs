//! The tree that is measured, and the output of `tree.c` on it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::harness::{Fixture, Output, Program};

/// Small files.
pub const FILES: usize = 10_000;
/// Bytes of each.
pub const FILE_BYTES: usize = 1024;
/// Bytes of the big file.
pub const BIG_BYTES: u64 = 100 << 20;

/// The files, on a local disk, and the program that times.
pub struct Measured {
    /// The directory of its files.
    pub fixture: Fixture,
    /// `tree.c`.
    pub timer: PathBuf,
    /// Their paths, a line for each.
    pub list: PathBuf,
}

/// Nanoseconds by action and directory, in order of the rounds, and the longest single operations.
pub struct Times(HashMap<(String, usize), Vec<(f64, f64)>>);

impl Measured {
    /// A tree of three levels with 10,000 files of 1 KB, and a file of 100 MB.
    pub fn new() -> Measured {
        let fixture = Fixture::new("benchmount");
        let mut list = String::new();
        for number in 0..FILES {
            let path = format!("data/{}/{}/module_{number}.py", number / 1000, number / 100 % 10);
            let text = format!("{path}\n");
            let content = text.repeat(FILE_BYTES / text.len() + 1);
            fixture.file(&path, &content.as_bytes()[..FILE_BYTES], 0o644);
            list.push_str(&text);
        }
        let noise = crate::model::Content::noise(1, BIG_BYTES);
        fixture.file("big", noise.read(0, BIG_BYTES), 0o644);
        Measured::with_list(fixture, &list)
    }

    /// A copy of a Python environment, with a script that imports this from it.
    pub fn of_environment(environment: &Path, import: &str) -> Measured {
        let fixture = Fixture::new("benchimport");
        let copied = Program::new("cp").arg("-a").arg(environment.join(".")).arg(fixture.shared()).run();
        assert_eq!(copied.status, 0, "{copied:?}");
        let script = format!("PYTHONDONTWRITEBYTECODE=1 exec bin/python3 -c 'import {import}'\n");
        fixture.file("run.sh", script, 0o644);
        Measured::with_list(fixture, "")
    }

    fn with_list(fixture: Fixture, list: &str) -> Measured {
        let list_file = fixture.outside("list");
        fs::write(&list_file, list).expect("an own directory");
        let timer = fixture.outside("tree");
        let built = fixture.build("bench/tree.c", "tree", &["-O2"]);
        fs::rename(built, &timer).expect("an own directory");
        Measured { fixture, timer, list: list_file }
    }

    /// The program with these actions.
    pub fn program<P: AsRef<Path>>(&self, actions: &str, rounds: usize, processes: usize, dirs: &[P]) -> Program {
        let numbers = [rounds.to_string(), processes.to_string()];
        let program = Program::new(&self.timer).arg(actions).args(&numbers).arg(&self.list);
        program.args(dirs.iter().map(|dir| dir.as_ref().as_os_str()))
    }
}

impl Times {
    /// From what the program printed. Panics with all of it if it failed.
    pub fn of(output: &Output) -> Times {
        assert_eq!(output.status, 0, "{output:?}");
        let mut times: HashMap<_, Vec<_>> = HashMap::new();
        for line in output.stdout.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [action, dir, _, ns, longest] = fields[..] else { continue };
            let (Ok(dir), Ok(ns), Ok(longest)) = (dir.parse::<usize>(), ns.parse(), longest.parse()) else { continue };
            times.entry((action.to_owned(), dir)).or_default().push((ns, longest));
        }
        Times(times)
    }

    /// Milliseconds of an action on a directory, in order of the rounds.
    pub fn ms(&self, action: &str, dir: usize) -> Vec<f64> {
        self.0.get(&(action.to_owned(), dir)).into_iter().flatten().map(|(ns, _)| ns / 1e6).collect()
    }

    /// The first round's, in milliseconds.
    pub fn first(&self, action: &str, dir: usize) -> f64 {
        self.ms(action, dir)[0]
    }

    /// The longest single operation, in milliseconds.
    pub fn longest(&self) -> f64 {
        self.0.values().flatten().map(|(_, longest)| longest / 1e6).fold(0.0, f64::max)
    }
}

/// A copy of a directory in a RAM disk.
pub fn in_memory(source: &Path) -> TempDir {
    let dir = tempfile::Builder::new().prefix("hwt-bench-").tempdir_in("/dev/shm").expect("/dev/shm takes a directory");
    let copied = Program::new("cp").arg("-a").arg(source.join(".")).arg(dir.path()).run();
    assert_eq!(copied.status, 0, "{copied:?}");
    dir
}

/// Has the kernel drop names and attributes, and with them its nodes' pages, as far as unused.
pub fn drop_names() {
    fs::write("/proc/sys/vm/drop_caches", "2").expect("root may");
}
