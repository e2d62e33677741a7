//! Fortran's READ and WRITE of arrays: by each access, whole reads and writes are transformed, and those that are too
//! short, in pieces, swapped or formatted have the results of libgfortran alone.

use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::skipped;

use crate::job::{Done, Job, differences};
use crate::report::{Line, report};

fn check_same(what: &str, done: &Done, plain: &Done) {
    assert_eq!(done.output.status, 0, "{what}: {}", done.output.stderr);
    assert_eq!(done.output.stdout, plain.output.stdout, "{what}");
    let differences = differences(&plain.files, &done.files);
    assert!(differences.is_empty(), "{what}: {differences:?}");
}

/// The patterns that were found; those that were transformed, or only observed.
fn patterns(lines: &[Line], is_observed: bool) -> Vec<&str> {
    let found = lines.iter().filter(|line| line.operations + line.transformed > 0 && line.pattern != "none");
    found.filter(|line| is_observed || line.transformed > 0).map(|line| line.pattern.as_str()).collect()
}

/// A direct-access record may be too short for all of an array: columns of a record are written as libgfortran does.
const CASES: [(&str, usize, &[&str]); 3] = [
    ("stream", 4, &["read+scatter", "gather+write"]),
    ("sequential", 2, &["read+scatter", "gather+write"]),
    ("direct", 2, &["read+scatter"]),
];

fn access(mpi: &Mpi) {
    let program = match mpi.build("fortran/access.f90") {
        Ok(program) => program,
        Err(reason) => return skipped(reason),
    };
    let library = match Library::find(mpi) {
        Ok(library) => library,
        Err(reason) => return skipped(reason),
    };
    for (access, ranks, expected) in CASES {
        let arguments = ["--access", access, "--dir", "{dir}"].map(str::to_owned).into();
        let job = Job { mpi, ranks, program: &program, arguments, variables: vec![] };
        let plain = job.run(None);
        assert_eq!(plain.output.status, 0, "{}: {}", job.shown(None), plain.output.stderr);
        assert!(plain.output.stdout.contains("formatted"), "{}: {}", job.shown(None), plain.output.stdout);
        for mode in ["auto", "verify", "observe"] {
            let library = library.clone().with("HEADWATER_IO", mode);
            let what = job.shown(Some(&library));
            let done = job.run(Some(&library));
            check_same(&what, &done, &plain);
            let lines = report(&done.report);
            let found = patterns(&lines, mode == "observe");
            assert!(expected.iter().all(|pattern| found.contains(pattern)), "{what}: {lines:?}");
        }
    }
}

crate::for_each_mpi!(access);
