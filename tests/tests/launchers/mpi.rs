//! The launchers of MPI implementations.

use std::fs;
use std::path::{Path, PathBuf};

use headwater_tests::harness::services::{Ssh, environment};
use headwater_tests::harness::{has_program, skipped};

use crate::site::Site;
use crate::ssh::{names, with_ssh};

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

fn args(launcher: &[&str], program: Vec<String>) -> Vec<String> {
    launcher.iter().map(|word| word.to_string()).chain(program).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The arguments of the MPI program.
fn mpi_program(site: &Site, python: &Path) -> Vec<String> {
    let mut args = site.program_with_variables();
    args.truncate(3);
    args.extend([shown(python), "-c".into(), MPI_SCRIPT.into()]);
    args
}

/// A launcher's arguments before the program, for one process on each of these nodes, and the variables that the
/// program needs if the launcher passes none on.
pub type Launch = fn(&Site, &Ssh, &[String]) -> Result<Vec<String>, String>;

/// Open MPI's `mpirun`.
pub fn open_mpi(_: &Site, ssh: &Ssh, nodes: &[String]) -> Result<Vec<String>, String> {
    if !has_program("mpirun.openmpi") {
        return Err("Open MPI is not installed (package openmpi-bin)".into());
    }
    let agent = shown(&ssh.agent);
    let launcher = ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", &agent];
    let (hosts, count) = (nodes.join(":1,") + ":1", nodes.len().to_string());
    Ok(args(&[&launcher[..], &["-H", &hosts, "-np", &count]].concat(), Vec::new()))
}

/// MPICH's `mpiexec`.
pub fn hydra(_: &Site, ssh: &Ssh, nodes: &[String]) -> Result<Vec<String>, String> {
    let mpiexec = shown(&mpich()?.join("bin/mpiexec"));
    let agent = shown(&ssh.agent);
    let launcher = [&*mpiexec, "-launcher", "ssh", "-launcher-exec", &agent];
    let (hosts, count) = (nodes.join(","), nodes.len().to_string());
    Ok(args(&[&launcher[..], &["-hosts", &hosts, "-ppn", "1", "-n", &count]].concat(), Vec::new()))
}

/// PRRTE's `prterun`.
pub fn prrte(_: &Site, ssh: &Ssh, nodes: &[String]) -> Result<Vec<String>, String> {
    let environment = open_mpi_5()?;
    let (prterun, prefix, agent) = (shown(&environment.join("bin/prterun")), shown(&environment), shown(&ssh.agent));
    let launcher = [&*prterun, "--allow-run-as-root", "--prefix", &prefix, "--prtemca", "plm_ssh_agent", &agent];
    let (hosts, count) = (nodes.join(":1,") + ":1", nodes.len().to_string());
    Ok(args(&[&launcher[..], &["--host", &hosts, "-n", &count]].concat(), Vec::new()))
}

fn mpich() -> Result<PathBuf, String> {
    environment("mpich", &["mpich", "mpi4py"])
}

fn open_mpi_5() -> Result<PathBuf, String> {
    environment("openmpi", &["openmpi", "mpi4py"])
}

#[test]
fn open_mpi_over_ssh() {
    with_ssh(Site::new(), |site, ssh| {
        let launch = |nodes: &[usize]| open_mpi(site, ssh, &names(site, nodes));
        let launcher = match launch(&[1, 1, 2, 2, 3, 3, 4, 4]) {
            Ok(launcher) => launcher,
            Err(reason) => return skipped(reason),
        };
        site.check_args(&[launcher, site.program_with_variables()].concat(), 4);
        // Several programs, each on nodes of its own.
        let mut several = [launch(&[1, 2]).unwrap(), site.program_with_variables()].concat();
        several.extend(args(&[":", "-H", "node003:1", "-np", "1"], site.program_with_variables()));
        site.check_args(&several, 3);
        // Ranks that a file distributes.
        let (hosts, ranks) = (site.directory("placed").join("hosts"), site.directory("placed").join("ranks"));
        let lines = |line: &dyn Fn(usize) -> String| (1..=3).map(line).collect::<String>();
        fs::write(&hosts, lines(&|node| format!("node00{node} slots=2\n"))).unwrap();
        fs::write(&ranks, lines(&|node| format!("rank {}=node00{node} slot=0\n", node - 1))).unwrap();
        let agent = shown(&ssh.agent);
        let mpirun = ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", &agent, "-n", "3"];
        let by_file = ["--hostfile", &shown(&hosts), "--rankfile", &shown(&ranks)];
        site.check_args(&[args(&mpirun, vec![]), args(&by_file, site.program_with_variables())].concat(), 3);
        let in_turn = ["--hostfile", &shown(&hosts), "--mca", "rmaps", "seq"];
        site.check_args(&[args(&mpirun, vec![]), args(&in_turn, site.program_with_variables())].concat(), 3);
    });
}

/// Runs the site's program, and one that uses MPI.
fn programs_of_mpi(launch: Launch, python: &dyn Fn() -> Result<PathBuf, String>) {
    let python = match python() {
        Ok(environment) => environment.join("bin/python3"),
        Err(reason) => return skipped(reason),
    };
    with_ssh(Site::new(), |site, ssh| {
        let launcher = launch(site, ssh, &names(site, &[1, 2, 3, 4])).unwrap();
        site.check_args(&[launcher.clone(), site.program_with_variables()].concat(), 4);
        site.check_args(&[launcher, mpi_program(site, &python)].concat(), 4);
    });
}

#[test]
fn hydra_and_a_program_of_mpich() {
    programs_of_mpi(hydra, &mpich);
}

#[test]
fn prrte_and_a_program_of_open_mpi() {
    programs_of_mpi(prrte, &open_mpi_5);
}
