//! Launchers whose nodes are one machine: two brokers on it, a host that is named twice, or by two names.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use headwater_tests::harness::{Fixture, Program, headwater_binary};

/// A launcher: its command line, and the variables of a process of rank R, which is alone on its node.
type Launcher = (&'static str, &'static str, &'static str);

const LAUNCHERS: &[Launcher] = &[
    (
        "flux",
        "flux run -n 2",
        "FLUX_URI=local:///f FLUX_JOB_ID=f7 FLUX_JOB_SIZE=2 FLUX_JOB_NNODES=2 FLUX_TASK_RANK=R FLUX_TASK_LOCAL_ID=0",
    ),
    (
        "srun",
        "srun -n 2",
        "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=R SLURM_LOCALID=0 SLURM_NODEID=R SLURM_NTASKS=2 \
         SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=2",
    ),
    (
        "mpirun",
        "mpirun -np 2",
        "OMPI_COMM_WORLD_RANK=R OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 \
         OMPI_MCA_orte_hnp_uri=x OMPI_MCA_ess_base_jobid=7",
    ),
    (
        "mpiexec.hydra",
        "mpiexec.hydra -n 2",
        "PMI_RANK=R PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1 HYDI_CONTROL_FD=9",
    ),
    (
        "aprun",
        "aprun -n 2",
        "PALS_APID=7 PALS_RANKID=R PALS_NODEID=R PALS_LOCAL_RANKID=0 PALS_SIZE=2 PMI_SIZE=2 PMI_RANK=R",
    ),
    (
        "jsrun",
        "jsrun -n 2",
        "LSB_JOBID=7 JSM_NAMESPACE_RANK=R JSM_NAMESPACE_SIZE=2 JSM_NAMESPACE_LOCAL_RANK=0 \
         JSM_NAMESPACE_LOCAL_SIZE=1 PMIX_NAMESPACE=x PMIX_RANK=R",
    ),
];

#[test]
fn nodes_that_are_one_machine_do_not_wait_for_each_other() {
    let fixture = Fixture::new("onehost");
    let data = fixture.file("data", vec![7; 1 << 20], 0o644);
    for (name, line, variables) in LAUNCHERS {
        let options = line.split(' ').count() - 1;
        let run = |rank: &str| format!("env {} \"$@\" &\n", variables.replace("=R", &format!("={rank}")));
        let script = format!("#!/bin/sh\nshift {options}\n{}{}wait\n", run("0"), run("1"));
        let launcher = fixture.outside(name);
        fs::write(&launcher, script).expect("an own directory");
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).expect("one's own");
        let path = format!("{}:/usr/bin:/bin", fixture.outside("").display());
        let front = ["run", "--shared", &fixture.shared().display().to_string(), "--verbose", "--marker", "@", "--"];
        let front = front.map(String::from);
        let args = line.split(' ').map(String::from).chain(["@".into(), "cksum".into(), data.display().to_string()]);
        let program = Program::new(headwater_binary()).args(front).args(args).env("PATH", path);
        let output = program.run();
        let sums: Vec<&str> = output.stdout.lines().collect();
        assert!(output.status == 0 && sums.len() == 2 && sums[0] == sums[1], "{name}: {output:?}");
        assert!(!output.stderr.contains("did not join in time"), "{name}: {output:?}");
        assert!(output.stderr.contains("nodes that take part: 1"), "{name}: {output:?}");
    }
}
