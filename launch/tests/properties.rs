//! Properties of any command line and any environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use headwater_launch::command::{World, prepare};
use headwater_launch::info::LaunchInfo;
use proptest::collection::vec;
use proptest::prelude::*;

/// A world in which an argument's bytes decide everything.
struct Whim(u8);

impl World for Whim {
    fn executable(&self, argument: &OsStr) -> Option<PathBuf> {
        let sum = argument.as_bytes().iter().fold(self.0, |sum, &b| sum.wrapping_mul(31).wrapping_add(b));
        sum.is_multiple_of(2).then(|| Path::new("/bin").join(argument))
    }

    fn version(&self, _: &Path) -> Option<String> {
        let versions = ["(Open MPI) 4.1", "(Open MPI) 5.0", "HYDRA", "mpiexec version 1", "what"];
        Some(versions[usize::from(self.0) % versions.len()].into())
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        Ok([b"0 ./a %t\n# x\n-n 2 ./b : ./c\n", file.as_os_str().as_bytes()].concat())
    }
}

/// Arguments of which command lines are made.
const WORDS: &[&str] = &[
    "srun",
    "salloc",
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "orterun",
    "prterun",
    "aprun",
    "flux",
    "run",
    "alloc",
    "jsrun",
    "env",
    "time",
    "timeout",
    "numactl",
    "--",
    ":",
    "-",
    "",
    "-n",
    "-n4",
    "-np",
    "--ntasks=4",
    "--nta",
    "4",
    "-x",
    "A=1",
    "--mca",
    "-genv",
    "-env",
    "--app",
    "--app=f",
    "-configfile",
    "--multi-prog",
    "f",
    "./a",
    "./b",
    "x",
    "--unknown",
    "--unknown=1",
    "-K",
    "-lv",
    "--exclusive",
    "-h",
    "--oversubscribe",
    "-trace",
    "-i",
    "mini",
    "proxy",
];

fn arguments() -> impl Strategy<Value = Vec<OsString>> {
    vec(prop::sample::select(WORDS).prop_map(OsString::from), 1..16)
}

fn bytes() -> impl Strategy<Value = OsString> {
    vec(any::<u8>(), 0..12).prop_map(OsString::from_vec)
}

const VARIABLES: &[&str] = &[
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NNODES",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_NODELIST",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_TOPOLOGY_ADDR",
    "SLURM_TOPOLOGY_ADDR_PATTERN",
    "SLURM_EXTERNAL_LAUNCHER",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_MCA_orte_hnp_uri",
    "OMPI_MCA_orte_num_nodes",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "PRTE_LAUNCHED",
    "PMI_RANK",
    "PMI_ID",
    "PMI_SIZE",
    "PMI_JOBID",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "HYDI_CONTROL_FD",
    "PALS_RANKID",
    "PALS_NODEID",
    "PALS_LOCAL_RANKID",
    "PALS_APID",
    "FLUX_TASK_RANK",
    "FLUX_JOB_SIZE",
    "FLUX_JOB_ID",
    "FLUX_URI",
    "JSM_NAMESPACE_RANK",
    "JSM_NAMESPACE_SIZE",
    "LSB_JOBID",
    "LSB_MCPU_HOSTS",
    "PBS_NODEFILE",
    "PBS_NODENUM",
    "PBS_TASKNUM",
];

const ODD: &[&str] =
    &["", "-1", "0", "1", "3", "4294967295", "4294967296", "1e3", "x", "n[1-4]", "n[4-1]", "2(x2),1", "a 1 b 2"];

fn value() -> impl Strategy<Value = OsString> {
    prop_oneof![
        prop::sample::select(ODD).prop_map(OsString::from),
        (0_u32..6).prop_map(|n| n.to_string().into()),
        bytes()
    ]
}

proptest! {
    #[test]
    fn all_other_arguments_stay(arguments in arguments(), whim in any::<u8>()) {
        let prefix = ["<1>", "<2>"].map(OsString::from);
        if let Ok(prepared) = prepare(&arguments, &prefix, None, &Whim(whim)) {
            let retained: Vec<_> = prepared.arguments.iter().filter(|argument| !prefix.contains(argument)).collect();
            prop_assert_eq!(retained, arguments.iter().collect::<Vec<_>>());
            let places: Vec<_> = (0..prepared.arguments.len()).filter(|&n| prepared.arguments[n] == prefix[0]).collect();
            prop_assert!(!places.is_empty() || !prepared.files.is_empty());
            for place in places {
                // A program follows each prefix.
                prop_assert_eq!(prepared.arguments.get(place + 1), Some(&prefix[1]));
                let behind = prepared.arguments.get(place + 2);
                prop_assert!(behind.is_some_and(|argument| !prefix.contains(argument)));
            }
            for file in &prepared.files {
                let named = &prepared.arguments[file.argument].as_bytes()[file.start..];
                prop_assert_eq!(named, file.original.as_os_str().as_bytes());
                let text = String::from_utf8(file.text.clone()).unwrap().replace("<1> <2> ", "");
                prop_assert_eq!(text.into_bytes(), Whim(whim).read(&file.original).unwrap());
            }
            prop_assert!(!prepared.explanation.contains('\n'));
        }
    }

    #[test]
    fn any_bytes_are_a_command(first in arguments(), rest in vec(bytes(), 0..8), prefix in vec(bytes(), 0..3), whim in any::<u8>()) {
        let arguments: Vec<OsString> = first.into_iter().chain(rest).collect();
        let marker = arguments.last().cloned();
        let _ = prepare(&arguments, &prefix, None, &Whim(whim));
        let _ = prepare(&arguments, &prefix, marker.as_deref(), &Whim(whim)).map_err(|e| e.to_string());
    }

    #[test]
    fn any_environment_is_a_place(variables in prop::collection::btree_map(prop::sample::select(VARIABLES), value(), 0..24)) {
        let variables: BTreeMap<&str, OsString> = variables;
        if let Some(info) = LaunchInfo::of(&|name| variables.get(name).cloned()) {
            let below = |number: Option<u32>, bound: Option<u32>| number.zip(bound).is_none_or(|(n, b)| n < b);
            prop_assert!(below(info.rank, info.size));
            prop_assert!(below(info.local_rank, info.local_size));
            prop_assert!(below(info.node, info.nodes));
            prop_assert!(info.local_size.zip(info.size).is_none_or(|(local, all)| local <= all));
        }
    }
}

#[test]
fn a_very_long_command() {
    let prefix = ["<1>"].map(OsString::from);
    for argument in ["srun", "env", "--unknown", ":", "-n", "x"] {
        let arguments: Vec<OsString> =
            ["srun"].into_iter().chain(std::iter::repeat_n(argument, 20_000)).map(Into::into).collect();
        let _ = prepare(&arguments, &prefix, None, &Whim(0));
        let _ = prepare(&arguments[1..], &prefix, None, &Whim(1));
    }
}
