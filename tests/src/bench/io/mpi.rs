//! The MPIs of this machine: how programs are compiled for them, and started.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::mpi as harness;

/// Options that allow root, and more ranks than processors.
const VARIABLES: [(&str, &str); 7] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];

/// An MPI.
#[derive(Clone, Debug)]
pub(super) struct Mpi {
    pub(super) name: &'static str,
    compiler: PathBuf,
    launcher: PathBuf,
}

/// Nodes on which ranks are started, one on each, and the command that reaches them.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    pub(super) agent: PathBuf,
    pub(super) names: Vec<String>,
}

impl Mpi {
    /// Those that are installed, of Debian or in `target/mpi`.
    pub(super) fn installed() -> Vec<Mpi> {
        let found = harness::Mpi::NAMES.into_iter().filter_map(|name| harness::Mpi::find(name).ok());
        found.map(|mpi| Mpi { name: mpi.name, compiler: mpi.compiler(), launcher: mpi.mpirun() }).collect()
    }

    /// The program of this source below `tests/programs`, compiled into `directory`.
    pub(super) fn compile(&self, source: &str, directory: &Path) -> Result<PathBuf, String> {
        let source = crate::workspace().join("tests/programs").join(source);
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let program = directory.join(format!("{name}.{}", self.name));
        let compiled = Command::new(&self.compiler).args(["-O2", "-g", "-o"]).arg(&program).arg(&source).output();
        let compiled = compiled.map_err(|error| format!("{}: {error}", self.compiler.display()))?;
        match compiled.status.success() {
            true => Ok(program),
            false => Err(format!("{}: {}", source.display(), String::from_utf8_lossy(&compiled.stderr))),
        }
    }

    /// The arguments that start so many ranks, before the program's; on other nodes by ssh.
    pub(super) fn args(&self, ranks: usize, hosts: Option<&Hosts>) -> Vec<String> {
        let launcher = self.launcher.display().to_string();
        let mut args = vec![launcher, "-n".into(), ranks.to_string()];
        if let Some(Hosts { agent, names }) = hosts {
            let agent = agent.display().to_string();
            let (slots, plain) = (format!("{}:1", names.join(":1,")), names.join(","));
            let prefix = self.launcher.parent().and_then(Path::parent).map(|path| path.display().to_string());
            let more = match self.name {
                "openmpi4" => vec!["--mca".into(), "plm_rsh_agent".into(), agent, "-H".into(), slots],
                "openmpi5" | "openmpi6" => {
                    let prefix = ["--prefix".into(), prefix.unwrap_or_default()];
                    let agent = ["--prtemca".into(), "plm_ssh_agent".into(), agent, "--host".into(), slots];
                    let one_on_each = ["--map-by".into(), "ppr:1:node:oversubscribe".into()];
                    prefix.into_iter().chain(agent).chain(one_on_each).collect()
                }
                _ => ["-launcher", "ssh", "-launcher-exec", &agent, "-ppn", "1", "-hosts", &plain]
                    .map(String::from)
                    .to_vec(),
            };
            args.extend(more);
        }
        args
    }

    /// Sets what the launcher needs.
    pub(super) fn prepare(command: &mut Command) {
        command.envs(VARIABLES);
    }
}
