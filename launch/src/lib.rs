//! Launchers of parallel programs: Slurm, Open MPI, PRRTE, hydra, PALS, Flux and JSM.
//!
//! - [`command`]: where the programs stand in a launcher's command line, and the line with a prefix
//!   before each of them.
//!
//! There is no I/O here. What a command line's words name is asked of a [`command::World`].

pub mod command;
mod launcher;

pub use launcher::Launcher;
