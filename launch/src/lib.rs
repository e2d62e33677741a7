//! Launchers of parallel programs: Slurm, Open MPI, PRRTE, hydra, PALS, Flux and JSM.
//!
//! - [`command`]: the positions of programs in a launcher's command line, and the line with a prefix before
//!   each of them;
//! - [`info`]: a process's information about its launch, from its environment: its rank, its node, their numbers.
//!
//! There is no I/O here. A [`command::World`] resolves a command line's arguments, and a function returns
//! variables, so both halves are deterministic.

pub mod command;
pub mod info;
mod launcher;

pub use launcher::Launcher;
