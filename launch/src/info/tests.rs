//! Precedence of several launchers, and invalid values.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::LaunchInfo;
use crate::Launcher;

fn info(variables: &str) -> Option<LaunchInfo> {
    let pairs: Vec<(&str, &str)> = variables.split_whitespace().filter_map(|word| word.split_once('=')).collect();
    LaunchInfo::of(&|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| value.replace('_', " ").into()))
}

const STEP: &str = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2";
const ORTE: &str =
    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_MCA_orte_hnp_uri=x PMIX_NAMESPACE=77 PMIX_RANK=3";
const PRRTE: &str = "OMPI_COMM_WORLD_RANK=3 PRTE_LAUNCHED=1 PMIX_NAMESPACE=prterun-n-1@1 PMIX_RANK=3";
const HYDRA: &str = "PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2";
const FLUX: &str = "FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_JOB_ID=f2 FLUX_URI=local:///x";
const PALS: &str = "PALS_RANKID=1 PALS_APID=a PALS_NODEID=0";
const JSM: &str = "JSM_NAMESPACE_RANK=1 JSM_NAMESPACE_SIZE=2 OMPI_COMM_WORLD_RANK=1";

#[test]
fn nodes_that_open_mpi_counts_twice() {
    for (regex, nodes) in [
        ("n[1:0-2]@0(3)", Some(3)),
        ("login,n[1:0-2]@0(1),1(2)", Some(3)),
        ("n[1:0-2]@0(3),1(4294967295)", Some(4)),
        ("n@", Some(4)),
        ("", Some(4)),
    ] {
        let info = info(&format!("{ORTE} OMPI_MCA_orte_num_nodes=6 OMPI_MCA_orte_node_regex={regex}"));
        assert_eq!(info.and_then(|info| info.nodes), nodes, "{regex}");
    }
    assert_eq!(info(ORTE).and_then(|info| info.nodes), None);
}

#[test]
fn the_innermost_counts() {
    let check = |parts: &[&str], launcher: Option<Launcher>| {
        assert_eq!(info(&parts.join(" ")).map(|info| info.launcher), launcher, "{parts:?}");
    };
    check(&[], None);
    check(&[STEP], Some(Launcher::Slurm));
    check(&[STEP, "PMI_RANK=1 PMI_SIZE=2 PMI_JOBID=7.0"], Some(Launcher::Slurm));
    check(&[STEP, PALS, "PMI_RANK=1 PMI_SIZE=2"], Some(Launcher::Slurm));
    check(&[STEP, ORTE], Some(Launcher::OpenMpi));
    check(&[STEP, PRRTE], Some(Launcher::Prrte));
    check(&[STEP, HYDRA], Some(Launcher::Hydra));
    check(&[STEP, FLUX], Some(Launcher::Flux));
    check(&[STEP, "PMIX_NAMESPACE=prte-n-1@1 PMIX_RANK=0"], Some(Launcher::Prrte));
    check(&["PMIX_NAMESPACE=slurm.pmix.7.0 PMIX_RANK=1", STEP, "PRTE_LAUNCHED=1"], Some(Launcher::Slurm));
    check(&["PMIX_NAMESPACE=slurm.pmix.6.0 PMIX_RANK=1", STEP, "PRTE_LAUNCHED=1"], Some(Launcher::Prrte));
    check(&[FLUX, "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=0"], Some(Launcher::Flux));
    check(&[FLUX, HYDRA], Some(Launcher::Hydra));
    check(&[FLUX, "PMI_RANK=1 PMI_SIZE=2", ORTE], Some(Launcher::OpenMpi));
    check(&[PALS, "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1"], Some(Launcher::Pals));
    check(&[PALS, HYDRA], Some(Launcher::Hydra));
    check(&[JSM, "PMIX_NAMESPACE=1 PMIX_RANK=1"], Some(Launcher::Jsm));
    check(&[JSM, PRRTE], Some(Launcher::Prrte));
    check(&["OMPI_COMM_WORLD_RANK=0"], Some(Launcher::OpenMpi));
    check(&["PMIX_RANK=0 PMIX_NAMESPACE=x"], Some(Launcher::Pmix));
    check(&["PMI_RANK=0 PMI_SIZE=1"], Some(Launcher::Hydra));
    check(&["PBS_NODENUM=1 PBS_TASKNUM=2"], Some(Launcher::Pbs));
    check(&["PBS_NODENUM=0 PBS_TASKNUM=1"], None);
    check(&[STEP, HYDRA, "HEADWATER_TOOL_NODES=3"], Some(Launcher::Tool));
    check(&["SLURM_JOB_ID=7 SLURM_PROCID=0"], None);
    check(&["SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_STEP_ID=4294967290"], None);
    check(&["SLURM_JOB_ID=x SLURM_PROCID=0 SLURM_STEP_ID=1"], None);
}

#[test]
fn a_tool_numbers_its_nodes() {
    let numbers = |variables: &str| info(variables).map(|info| (info.node, info.nodes, info.rank, info.size));
    let check = |variables, node| assert_eq!(numbers(variables), Some((node, Some(3), None, None)), "{variables}");
    check("HEADWATER_TOOL_NODE=2 HEADWATER_TOOL_NODES=3 PMI_RANK=1 PMI_SIZE=2", Some(2));
    check("HEADWATER_TOOL_NODE=3 HEADWATER_TOOL_NODES=3", None);
}

#[test]
fn nonsense_is_unknown() {
    let check = |variables: &str, fact: fn(LaunchInfo) -> Option<u32>, expected| {
        assert_eq!(
            info(&format!("SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 {variables}")).and_then(fact),
            expected
        );
    };
    let rank = |rank: &str, size: &str| {
        info(&format!("SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID={rank} SLURM_NTASKS={size}")).unwrap()
    };
    assert_eq!((rank("3", "4").rank, rank("3", "4").size), (Some(3), Some(4)));
    assert_eq!((rank("4", "4").rank, rank("4", "4").size), (None, Some(4)));
    for nonsense in ["-1", "+1", "x", "1.0", "4294967296", "0x1", "1_"] {
        assert_eq!((rank(nonsense, "4").rank, rank("1", nonsense).size), (None, None), "{nonsense}");
    }
    check("SLURM_NTASKS=0", |info| info.size, None);
    check("SLURM_NNODES=2 SLURM_NODEID=2", |info| info.node, None);
    check("SLURM_NNODES=0 SLURM_NODEID=2", |info| info.nodes, None);
    check("SLURM_NTASKS=2 SLURM_LOCALID=5", |info| info.local_rank, None);
    check("SLURM_NODEID=1 SLURM_TASKS_PER_NODE=2,3", |info| info.local_size, Some(3));
    check("SLURM_NODEID=1 SLURM_TASKS_PER_NODE=2,3 SLURM_LOCALID=3", |info| info.local_rank, None);
    check("SLURM_NODEID=1 SLURM_TASKS_PER_NODE=2,3 SLURM_NTASKS=2", |info| info.local_size, None);
    check("SLURM_NODEID=2 SLURM_TASKS_PER_NODE=2,3", |info| info.local_size, None);
    let bytes = |name: &str| match name {
        "PMI_RANK" | "PMI_SIZE" => Some(OsString::from_vec(vec![0xff, b'1'])),
        _ => None,
    };
    assert_eq!(LaunchInfo::of(&bytes).map(|info| (info.rank, info.size)), Some((None, None)));
}
