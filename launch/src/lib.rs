//! Launchers of parallel programs: Slurm, Open MPI, PRRTE, hydra, PALS, Flux and JSM.
//!
//! - [`command`]: where the programs stand in a launcher's command line, and the line with a prefix
//!   before each of them;
//! - [`info`]: what a process's environment tells of its launch: its rank, its node, its neighbours.
//!
//! There is no I/O here. What a command line's words name is asked of a [`command::World`], and
//! variables are read through a function, so both halves give the same answer to the same questions.

pub mod command;
pub mod info;
mod launcher;

pub use launcher::Launcher;
