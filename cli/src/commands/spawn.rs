//! `headwater spawn`: many processes of one program on this node, placed, labelled and counted.

use anyhow::Result;

use crate::spawn;
use crate::spawn::options::SpawnOptions;

/// Runs the command; returns the exit status.
pub fn spawn(options: &SpawnOptions) -> Result<u8> {
    if options.relay {
        return spawn::relay::relay(&options.program);
    }
    if options.check {
        return Ok(spawn::check::check(options));
    }
    spawn::plan::check(options)?;
    spawn::guard::guarded(|guard, blocked| spawn::work::work(options, guard, blocked))
}
