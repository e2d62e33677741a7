//! `headwater spawn`: many processes of one program on this node, placed, labelled and counted.
//!
//! A [guard] and a worker; the worker ([`work`]) makes the processes by the spawning library ([`library`]), as
//! the [plan] says, reads their output ([`outlet`]), and waits for them ([`processes`]). With [`relay`], a launcher
//! starts the processes itself.

mod check;
mod guard;
pub mod library;
pub mod on_behalf;
pub mod options;
mod outlet;
mod plan;
mod processes;
mod relay;
mod report;
mod screen;
mod work;

use anyhow::Result;

use self::options::SpawnOptions;
pub use self::plan::interpreter_arguments;

/// Runs the command; returns the exit status.
pub fn spawn(options: &SpawnOptions) -> Result<u8> {
    if options.relay {
        return relay::relay(&options.program);
    }
    if options.check {
        return Ok(check::check(options));
    }
    plan::check(options)?;
    guard::guarded(|guard, blocked| work::work(options, guard, blocked))
}
