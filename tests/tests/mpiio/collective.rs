//! Collective operations of few bytes, which one rank does for all: what each rank sees is the same.

use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::skipped;

use crate::job::{Job, differences};
use crate::report::report;

fn collective(mpi: &Mpi) {
    let program = mpi.build("c/collective.c").unwrap();
    let job = Job { mpi, ranks: 3, program: &program, arguments: vec!["{dir}".into()], variables: vec![] };
    let plain = job.run(None);
    assert_eq!(plain.output.status, 0, "{}: {}", job.shown(None), plain.output.stderr);
    let library = match Library::find(mpi) {
        Ok(library) => library,
        Err(reason) => return skipped(reason),
    };
    for (mode, model) in [("auto", "always"), ("auto", "measured"), ("verify", "always"), ("observe", "always")] {
        let library = library.clone().with("HEADWATER_IO", mode).with("HEADWATER_IO_MODEL", model);
        let served = job.run(Some(&library));
        let what = job.shown(Some(&library));
        assert_eq!(served.output.status, 0, "{what}: {}", served.output.stderr);
        let found = differences(&plain.files, &served.files);
        assert!(found.is_empty(), "{what}: {found:?}");
        let lines = report(&served.report);
        let transformed: u64 = lines.iter().filter(|line| line.pattern == "collective").map(|l| l.transformed).sum();
        match (mode, model) {
            ("auto", "always") => assert!(transformed > 100, "{what}: {}", served.report),
            ("auto", _) => {}
            _ => assert_eq!(transformed, 0, "{what}: {}", served.report),
        }
        assert!(mode != "observe" || lines.iter().any(|line| line.pattern == "collective"), "{}", served.report);
    }
}

crate::for_each_mpi!(collective);
