//! What a traced run used, as entries of a closure for `--preload`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use headwater_abi::path::PATH_BYTES_MAX;
use headwater_closure::recorded::{Call, CallKind, ENTRIES_MAX, Entry, Version, What};

use super::files::Names;
use super::run::Run;

/// Returns the entries, in the order of first use. Files that have been written to are left out, and so are those
/// that aren't there any more.
pub fn entries(run: &Run, names: &Names) -> Vec<Entry> {
    let mut calls: Vec<&Call> = run.calls().collect();
    calls.sort_by_key(|call| call.at_ns);
    let of = |kind: CallKind| -> BTreeSet<&Path> {
        let successful = calls.iter().filter(|call| call.kind == kind && call.errno == 0);
        successful.map(|call| names.canonical(&call.path)).collect()
    };
    let (written, loaded, read) = (of(CallKind::Write), of(CallKind::Load), of(CallKind::Read));
    let mut entries = Vec::new();
    let mut known = BTreeSet::<PathBuf>::new();
    for call in &calls {
        // The names of its directory answer for an absent name.
        let used = if call.errno == 0 { call.path.as_path() } else { call.path.parent().unwrap_or(&call.path) };
        let path = names.canonical(used);
        if entries.len() >= ENTRIES_MAX
            || written.contains(path)
            || is_of_machine(path)
            || !known.insert(path.to_owned())
        {
            continue;
        }
        let Ok(found) = fs::metadata(path) else { continue };
        if path.as_os_str().as_bytes().len() > PATH_BYTES_MAX {
            continue;
        }
        let version =
            Version { size: found.len(), mtime_seconds: found.mtime(), mtime_nanoseconds: found.mtime_nsec() as u32 };
        let is_opened = read.contains(path) || loaded.contains(path);
        let what = match () {
            () if found.is_dir() => What::Directory,
            () if !found.is_file() => continue,
            () if loaded.contains(path) => What::Loadable(version),
            () if is_opened || call.kind == CallKind::Execute => What::Whole(version),
            () => What::Attributes(version),
        };
        entries.push(Entry { what, path: path.to_owned() });
    }
    entries
}

/// Returns whether a path is of the kernel's own file systems.
fn is_of_machine(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|directory| path.starts_with(directory))
}
