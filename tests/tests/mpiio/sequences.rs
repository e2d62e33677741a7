//! Generated sequences of operations: each rank sees the same with and without the library.

use std::collections::BTreeMap;
use std::path::PathBuf;

use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::skipped;

use crate::all;
use crate::job::{Done, Job};
use crate::report::transformed;

/// How many of each MPI, in CI and else.
const COUNT: u64 = 500;
const COUNT_ALL: u64 = 25_000;
/// How many a process runs: places of the program that were of no use are left alone in the rest of it.
const IN_ONE: u64 = 100;

/// What each rank logged of each seed.
fn hashes(done: &Done) -> BTreeMap<(u64, PathBuf), String> {
    let mut hashes = BTreeMap::new();
    for (path, bytes) in done.files.iter().filter(|(path, _)| path.to_string_lossy().starts_with("sequences.")) {
        for line in String::from_utf8_lossy(bytes).lines() {
            let (seed, hash) = line.split_once(' ').unwrap_or_else(|| panic!("the log's line `{line}`"));
            hashes.insert((seed.parse().unwrap(), path.clone()), hash.to_owned());
        }
    }
    hashes
}

fn job<'a>(mpi: &'a Mpi, ranks: usize, program: &'a std::path::Path, seed: u64, count: u64) -> Job<'a> {
    let mut words = vec!["{dir}".to_owned(), "--seed".into(), seed.to_string(), "--count".into(), count.to_string()];
    // Of local files only those that nobody writes are put off.
    if seed / IN_ONE % 2 == 1 {
        words.push("--read-only".into());
    }
    Job { mpi, ranks, program, arguments: words, variables: vec![] }
}

/// The seed at which two runs part, if they do.
fn first_difference(plain: &Done, served: &Done) -> Option<u64> {
    let (one, other) = (hashes(plain), hashes(served));
    one.iter().find(|(key, hash)| other.get(*key) != Some(hash)).map(|((seed, _), _)| *seed)
}

fn generated(mpi: &Mpi) {
    let program = mpi.build("sequences").unwrap();
    let library = Library::find(mpi);
    let count = if all() { COUNT_ALL } else { COUNT };
    let mut operations = 0;
    for first in (0..count).step_by(IN_ONE as usize) {
        // Most with two ranks, which is quickest; some with more.
        let ranks = if first % (5 * IN_ONE) == 0 { 3 } else { 2 };
        let in_one = if ranks == 3 && !mpi.is_open_mpi() && !all() { IN_ONE / 5 } else { IN_ONE };
        let these = job(mpi, ranks, &program, first, in_one);
        let plain = these.run(None);
        assert_eq!(plain.output.status, 0, "{}: {}", these.shown(None), plain.output.stderr);
        assert_eq!(hashes(&plain).len() as u64, in_one * ranks as u64);
        let Ok(library) = &library else { return skipped(library.unwrap_err()) };
        let served = these.run(Some(library));
        let part = first_difference(&plain, &served);
        let again = |seed| job(mpi, ranks, &program, seed, 1).shown(Some(library)).replace("{dir}", "/tmp");
        let whole = these.shown(Some(library));
        let (status, stderr) = (served.output.status, &served.output.stderr);
        assert!(part.is_none(), "seed {part:?}: {} --trace\n(or {whole}): {status} {stderr}", again(part.unwrap()));
        assert_eq!(status, 0, "{whole}: {stderr}");
        operations += transformed(&served.report);
    }
    assert!(operations > 0, "nothing was transformed in {count} sequences");
}

crate::for_each_mpi!(generated);
