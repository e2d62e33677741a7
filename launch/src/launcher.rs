//! The launchers that are known.

use std::fmt;

/// A launcher, or a family of launchers that share command line and environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Slurm's `srun`.
    Slurm,
    /// Open MPI up to version 4: `mpirun`, `mpiexec`, `orterun`.
    OpenMpi,
    /// PRRTE, and Open MPI from version 5 on, which is built on it: `prterun`, `prun`, `mpirun`.
    Prrte,
    /// MPICH's process manager, also Intel's and MVAPICH's: `mpiexec.hydra`, `mpiexec`, `mpirun`.
    Hydra,
    /// HPE's PALS, and ALPS before it: `mpiexec`, `aprun`.
    Pals,
    /// Flux: `flux run`, `flux submit`.
    Flux,
    /// IBM's job step manager: `jsrun`.
    Jsm,
    /// PBS's own, `pbsdsh`.
    Pbs,
    /// A launcher known by PMIx alone; only in the information of a process.
    Pmix,
    /// A tool that includes `<headwater-launch.h>`; only in the information of a node agent.
    Tool,
    /// A launcher in whose command line the user's marker is; never in the information of a process.
    Marked,
}

impl Launcher {
    /// Returns its name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Launcher::Slurm => "Slurm",
            Launcher::OpenMpi => "Open MPI",
            Launcher::Prrte => "PRRTE",
            Launcher::Hydra => "hydra",
            Launcher::Pals => "PALS",
            Launcher::Flux => "Flux",
            Launcher::Jsm => "JSM",
            Launcher::Pbs => "PBS",
            Launcher::Pmix => "PMIx",
            Launcher::Tool => "a tool",
            Launcher::Marked => "marked",
        }
    }
}

impl fmt::Display for Launcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
