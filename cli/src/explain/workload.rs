//! A run's events as the look-ups of one process, which the model starts on any number of nodes.
//!
//! Several processes stand one behind the other, in the order of their calls. Computing is the time between a
//! process's calls, without that in which a child of it runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path as FilePath;

use headwater_abi::Path;
use headwater_closure::recorded::{Call, CallKind, Entry, Record};
use headwater_model::{Kind, Lookup, Trace};

use super::files::Names;
use super::run::Run;

/// Longer pauses are not the program's own: the user's, or a server's.
const PAUSE_NS_MAX: u64 = 2_000_000_000;

/// Returns the look-ups of a run. Without `shared` those in directories of the machine itself are left out.
pub fn trace(run: &Run, names: &Names, entries: &[Entry], shared: &[Path]) -> Trace {
    let mut calls: Vec<&Call> = run.calls().collect();
    calls.sort_by_key(|call| call.at_ns);
    let listed: BTreeSet<&FilePath> =
        calls.iter().filter(|call| call.kind == CallKind::List).map(|call| names.canonical(&call.path)).collect();
    let mut mapped = BTreeMap::<&FilePath, u64>::new();
    let mut loaded = BTreeSet::new();
    let mut read = BTreeMap::<&FilePath, u64>::new();
    let mut named = BTreeMap::<&FilePath, u64>::new();
    for call in calls.iter().filter(|call| call.errno == 0) {
        let path = names.canonical(&call.path);
        match call.kind {
            CallKind::Load => drop(loaded.insert(path)),
            CallKind::Map => {
                let most = mapped.entry(path).or_default();
                *most = call.size.max(*most);
            }
            CallKind::Read => *read.entry(path).or_default() += call.size,
            CallKind::List => {
                let most = named.entry(path).or_default();
                *most = call.size.max(*most);
            }
            _ => {}
        }
    }
    let sizes: BTreeMap<&FilePath, u64> =
        entries.iter().filter_map(|entry| Some((entry.path.as_path(), entry.version()?.size))).collect();
    let size_of = |path: &FilePath| {
        let now = || fs::metadata(path).ok().filter(|file| file.is_file()).map(|file| file.len());
        let known = sizes.get(path).copied().or_else(now);
        known.or_else(|| mapped.get(path).or(read.get(path)).copied()).unwrap_or(0)
    };
    let mut computing = Computing::of(run);
    let mut lookups = Vec::new();
    for call in calls {
        computing.until(call);
        let canonical =
            if call.errno == 0 { names.canonical(&call.path).to_owned() } else { absent(names, &call.path) };
        let path = canonical.as_path();
        let (kind, size) = match call.kind {
            CallKind::Write | CallKind::List | CallKind::Read | CallKind::Map | CallKind::Load => continue,
            _ if call.errno != 0 && !is_absent(call.errno) => continue,
            _ if call.errno != 0 => (Kind::Absent, 0),
            CallKind::Open if listed.contains(path) => (Kind::List, named.get(path).copied().unwrap_or(0)),
            CallKind::Open if loaded.contains(path) => {
                (Kind::Load, mapped.get(path).copied().unwrap_or(0).min(size_of(path)))
            }
            CallKind::Open if path.is_dir() => (Kind::Stat, 0),
            CallKind::Open | CallKind::Execute => (Kind::Open, size_of(path)),
            CallKind::Stat | CallKind::Link => (Kind::Stat, 0),
        };
        let Some(path) = Path::new(path.as_os_str().as_bytes()) else { continue };
        let is_used = match shared {
            [] => !headwater_model::is_local(&path),
            shared => shared.iter().any(|directory| path.is_within(directory)),
        };
        if is_used && !path.components().any(|component| component == b"..") {
            lookups.push(Lookup { kind, path, size, before_ns: computing.take() });
        }
    }
    Trace { lookups, after_ns: computing.end(run.end_ns) }
}

/// Returns the look-ups of a record; see [`trace`].
pub fn trace_of(record: Record, shared: &[Path]) -> Trace {
    let run = Run::new(record.events);
    trace(&run, &Names::of(&run), &record.entries, shared)
}

/// The computing since the last look-up.
struct Computing {
    since_ns: u64,
    last_ns: HashMap<u32, u64>,
    /// When children of each process run.
    children: HashMap<u32, Vec<(u64, u64)>>,
    end_ns: u64,
}

impl Computing {
    fn of(run: &Run) -> Computing {
        let mut last_ns = HashMap::new();
        let mut children = HashMap::<u32, Vec<(u64, u64)>>::new();
        for image in &run.images {
            last_ns.entry(image.process).or_insert(image.start_ns);
            if let Some(&parent) = run.parents.get(&image.process) {
                children.entry(parent).or_default().push((image.start_ns, image.end_ns));
            }
        }
        Computing { since_ns: 0, last_ns, children, end_ns: 0 }
    }

    /// Adds the time from a process's last call to this one.
    fn until(&mut self, call: &Call) {
        let end_ns = call.end_ns();
        let before_ns = self.last_ns.insert(call.process, end_ns).unwrap_or(call.at_ns);
        let pause_ns = call.at_ns.saturating_sub(before_ns);
        let children = self.children.get(&call.process).map_or(&[][..], Vec::as_slice);
        let waits = children.iter().any(|&(from_ns, to_ns)| from_ns < call.at_ns && to_ns > before_ns);
        if pause_ns <= PAUSE_NS_MAX && !waits {
            self.since_ns += pause_ns;
        }
        self.end_ns = self.end_ns.max(end_ns);
    }

    fn take(&mut self) -> u64 {
        std::mem::take(&mut self.since_ns)
    }

    fn end(self, end_ns: u64) -> u64 {
        let pause_ns = end_ns.saturating_sub(self.end_ns);
        self.since_ns + if pause_ns <= PAUSE_NS_MAX { pause_ns } else { 0 }
    }
}

/// Returns the path of an absent name, without links of its directory.
fn absent(names: &Names, path: &FilePath) -> std::path::PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            fs::canonicalize(parent).unwrap_or_else(|_| names.canonical(parent).to_owned()).join(name)
        }
        _ => path.to_owned(),
    }
}

fn is_absent(errno: u32) -> bool {
    [libc::ENOENT, libc::ENOTDIR].iter().any(|&absent| absent as u32 == errno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::run::Image;

    #[test]
    fn calls_become_look_ups() {
        let call = |at_ns, kind, errno, size, path: &str| Call {
            at_ns,
            length_ns: 10,
            process: 1,
            kind,
            errno,
            size,
            path: path.into(),
        };
        let calls = vec![
            call(100, CallKind::Open, 2, 0, "/none/sw/liba.so"),
            call(200, CallKind::Open, 0, 0, "/none/lib/liba.so"),
            call(300, CallKind::Map, 0, 4096, "/none/lib/liba.so"),
            call(310, CallKind::Load, 0, 4096, "/none/lib/liba.so"),
            call(400, CallKind::Open, 0, 0, "/none/dir"),
            call(410, CallKind::List, 0, 7, "/none/dir"),
            call(500, CallKind::Stat, 0, 0, "/etc/passwd"),
        ];
        let image = Image { process: 1, start_ns: 50, end_ns: 600, calls, ..Image::default() };
        let run = Run { images: vec![image], end_ns: 600, ..Run::default() };
        let names = Names::of(&run);
        let trace_of = |shared: &[Path]| {
            let trace = trace(&run, &names, &[], shared);
            let found: Vec<(Kind, u64, u64)> = trace.lookups.iter().map(|l| (l.kind, l.size, l.before_ns)).collect();
            (found, trace.after_ns)
        };
        let expected = vec![(Kind::Absent, 0, 50), (Kind::Load, 4096, 90), (Kind::List, 7, 170)];
        assert_eq!(trace_of(&[]), (expected, 170));
        assert_eq!(trace_of(&[Path::new(b"/etc").unwrap()]).0.len(), 1);
    }
}
