//! The launchers of MPI implementations.

use std::path::Path;

use headwater_tests::harness::services::{Ssh, environment};
use headwater_tests::harness::{has_program, skipped};

use crate::site::Site;

/// Adds the ranks of a real MPI program, beside the modules that it imports.
const MPI_SCRIPT: &str = "
import sys, importlib
from mpi4py import MPI
value = sum(importlib.import_module(f'pkg.m{n}').value for n in range(10))
world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
if world.rank == 0:
    print(value, world.size, total)
";

fn with_ssh(test: impl Fn(&Site, &Ssh)) {
    let Some(site) = Site::new() else { return };
    let directory = site.directory("ssh");
    match Ssh::start(&site.cluster, &directory) {
        Ok(ssh) => test(&site, &ssh),
        Err(reason) => skipped(reason),
    }
}

fn words(launcher: &[&str], program: Vec<String>) -> Vec<String> {
    launcher.iter().map(|word| word.to_string()).chain(program).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The words of the MPI program.
fn mpi_program(site: &Site, python: &Path) -> Vec<String> {
    let mut words = site.program_with_variables();
    words.truncate(3);
    words.extend([shown(python), "-c".into(), MPI_SCRIPT.into()]);
    words
}

#[test]
fn open_mpi_over_ssh() {
    if !has_program("mpirun.openmpi") {
        return skipped("Open MPI is not installed (package openmpi-bin)");
    }
    with_ssh(|site, ssh| {
        let agent = shown(&ssh.agent);
        let launcher = ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", &agent];
        let hosts = ["-H", "node001:2,node002:2,node003:2,node004:2", "-np", "8"];
        site.check_words(&words(&[&launcher[..], &hosts].concat(), site.program_with_variables()), 4);
        // Several programs, each on nodes of its own.
        let mut several =
            words(&[&launcher[..], &["-H", "node001:1,node002:1", "-np", "2"]].concat(), site.program_with_variables());
        several.extend(words(&[":", "-H", "node003:1", "-np", "1"], site.program_with_variables()));
        site.check_words(&several, 3);
    });
}

#[test]
fn hydra_and_a_program_of_mpich() {
    let environment = match environment("mpich", &["mpich", "mpi4py"]) {
        Ok(environment) => environment,
        Err(reason) => return skipped(reason),
    };
    with_ssh(|site, ssh| {
        let mpiexec = shown(&environment.join("bin/mpiexec"));
        let agent = shown(&ssh.agent);
        let launcher = [&*mpiexec, "-launcher", "ssh", "-launcher-exec", &agent];
        let hosts = ["-hosts", "node001,node002,node003,node004", "-ppn", "2", "-n", "8"];
        let launcher = [&launcher[..], &hosts].concat();
        site.check_words(&words(&launcher, site.program()), 4);
        site.check_words(&words(&launcher, mpi_program(site, &environment.join("bin/python3"))), 4);
    });
}

#[test]
fn prrte_and_a_program_of_open_mpi() {
    let environment = match environment("openmpi", &["openmpi", "mpi4py"]) {
        Ok(environment) => environment,
        Err(reason) => return skipped(reason),
    };
    with_ssh(|site, ssh| {
        let prterun = shown(&environment.join("bin/prterun"));
        let agent = shown(&ssh.agent);
        let prefix = shown(&environment);
        let launcher = [&*prterun, "--allow-run-as-root", "--prefix", &prefix, "--prtemca", "plm_ssh_agent", &agent];
        let hosts = ["--host", "node001:1,node002:1,node003:1,node004:1", "-n", "4"];
        let launcher = [&launcher[..], &hosts].concat();
        site.check_words(&words(&launcher, site.program_with_variables()), 4);
        site.check_words(&words(&launcher, mpi_program(site, &environment.join("bin/python3"))), 4);
    });
}
