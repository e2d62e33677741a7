//! MPI programs with naive I/O, with and without the library that makes it parallel: the same output, files, status
//! and return codes, and something was transformed where something can be.
//!
//! `HEADWATER_TEST_ALL=1` runs the whole matrix of programs, MPIs and ranks; without it, a part that takes a minute or
//! two.

mod fortran;
mod habits;
mod job;
mod nfs;
mod nodes;
mod programs;
mod report;
mod safety;
mod sequences;

use std::sync::{Mutex, MutexGuard, PoisonError};

use headwater_tests::harness::mpi::Mpi;
use headwater_tests::harness::skipped;

/// Ranks wait by polling: a job at a time is the quickest.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if the whole matrix is to be run.
fn all() -> bool {
    std::env::var_os("HEADWATER_TEST_ALL").is_some_and(|value| value == "1")
}

/// Runs a test with one MPI, or prints that it is not installed.
fn with_mpi(name: &'static str, test: impl FnOnce(&Mpi)) {
    match Mpi::find(name) {
        Ok(mpi) => {
            let _alone = alone();
            test(&mpi);
        }
        Err(reason) => skipped(reason),
    }
}

/// The versions of each implementation, for tests in which any will do.
const OPEN_MPI: &[&str] = &["openmpi4", "openmpi5", "openmpi6"];
const MPICH: &[&str] = &["mpich4", "mpich5"];

/// Runs a test with the first of these MPIs that is installed, or prints that there is none.
fn with_first(names: &[&'static str], test: impl FnOnce(&Mpi)) {
    let there = names.iter().copied().find(|name| Mpi::find(name).is_ok());
    with_mpi(there.unwrap_or(names[0]), test);
}

/// A test for each MPI.
#[macro_export]
macro_rules! for_each_mpi {
    ($test:path) => {
        #[test]
        fn open_mpi_4() {
            $crate::with_mpi("openmpi4", $test);
        }

        #[test]
        fn open_mpi_5() {
            $crate::with_mpi("openmpi5", $test);
        }

        #[test]
        fn open_mpi_6() {
            $crate::with_mpi("openmpi6", $test);
        }

        #[test]
        fn mpich_4() {
            $crate::with_mpi("mpich4", $test);
        }

        #[test]
        fn mpich_5() {
            $crate::with_mpi("mpich5", $test);
        }
    };
}
