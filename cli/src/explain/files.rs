//! Files and directories, with what all processes do with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use headwater_closure::recorded::{CallKind, Entry};
use headwater_report::page::printable;
use headwater_report::start::{Calls, Directory, OpenFile};

use super::run::Run;

/// The most files that a report names.
const FILES_MAX: usize = 20_000;

/// The canonical path of each path of a run.
pub struct Names(BTreeMap<PathBuf, PathBuf>);

impl Names {
    /// Resolves the links of all paths of a run, as this machine has them now.
    pub fn of(run: &Run) -> Names {
        let mut names = BTreeMap::new();
        for call in run.calls().filter(|call| call.errno == 0) {
            if !names.contains_key(&call.path) {
                let canonical = fs::canonicalize(&call.path).unwrap_or_else(|_| call.path.clone());
                names.insert(call.path.clone(), canonical);
            }
        }
        Names(names)
    }

    /// Returns a path without links; the path itself if it is unknown.
    pub fn canonical<'a>(&'a self, path: &'a Path) -> &'a Path {
        self.0.get(path).map_or(path, PathBuf::as_path)
    }
}

#[derive(Default)]
struct File {
    shown: OpenFile,
    processes: BTreeSet<u32>,
    is_directory: bool,
}

/// Returns the files, the slowest first, and the directories whose names are read. `entries` have the sizes of files
/// that this machine lacks.
pub fn files(run: &Run, names: &Names, entries: &[Entry]) -> (Vec<OpenFile>, Vec<Directory>) {
    let mut files = BTreeMap::<&Path, File>::new();
    let mut directories = BTreeMap::<&Path, Directory>::new();
    for call in run.calls().filter(|call| call.errno == 0) {
        let path = names.canonical(&call.path);
        if call.kind == CallKind::List {
            let directory = directories.entry(path).or_default();
            directory.calls += 1;
            directory.names += call.size;
            directory.length_ns += call.length_ns;
            files.entry(path).or_default().is_directory = true;
            continue;
        }
        let File { shown, processes, .. } = files.entry(path).or_default();
        if shown.calls == 0 {
            shown.start_ns = call.at_ns;
        }
        shown.calls += 1;
        shown.length_ns += call.length_ns;
        processes.insert(call.process);
        match call.kind {
            CallKind::Open | CallKind::Write => shown.opens += 1,
            CallKind::Read => shown.read_bytes += call.size,
            CallKind::Map | CallKind::Load => shown.mapped_bytes += call.size,
            _ => {}
        }
    }
    let recorded: BTreeMap<&Path, u64> =
        entries.iter().filter_map(|entry| Some((entry.path.as_path(), entry.version()?.size))).collect();
    let mut all: Vec<OpenFile> = files
        .into_iter()
        .filter(|(path, file)| !file.is_directory && !path.is_dir())
        .map(|(path, File { shown, processes, .. })| {
            let of_entry = recorded.get(path).copied();
            let found = || fs::metadata(path).ok().filter(|file| file.is_file()).map(|file| file.len());
            OpenFile {
                path: printable(path.as_os_str().as_bytes()),
                processes: processes.len() as u64,
                size_bytes: of_entry.or_else(found),
                used_bytes: run.used.get(path).copied(),
                ..shown
            }
        })
        .collect();
    all.sort_by_key(|file| std::cmp::Reverse(file.length_ns));
    all.truncate(FILES_MAX);
    let mut directories: Vec<Directory> = directories
        .into_iter()
        .map(|(path, directory)| Directory { path: printable(path.as_os_str().as_bytes()), ..directory })
        .collect();
    directories.sort_by_key(|directory| std::cmp::Reverse(directory.length_ns));
    (all, directories)
}

/// Returns sums over calls.
pub fn sums<'a>(calls: impl Iterator<Item = &'a headwater_closure::recorded::Call>) -> Calls {
    let mut sums = Calls::default();
    for call in calls {
        sums.count += 1;
        sums.length_ns = sums.length_ns.saturating_add(call.length_ns);
        if call.errno != 0 {
            sums.failed += 1;
            sums.failed_ns += call.length_ns;
        } else if call.kind == CallKind::Read {
            sums.read_bytes += call.size;
        }
    }
    sums
}
