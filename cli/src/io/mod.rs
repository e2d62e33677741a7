//! Parallel I/O for MPI programs that read or write a file on one rank for all. `options` and `preload` load the I/O
//! library into a program's processes; the other files are `headwater io`.

pub mod commands;
mod measure;
pub mod options;
mod predict;
pub mod preload;
mod report;
mod source;
pub mod trial;

use anyhow::Result;
use commands::IoCommand;

/// Runs `headwater io`.
///
/// # Errors
/// Input that can't be used, or output that can't be written.
pub fn run(command: &IoCommand) -> Result<u8> {
    match command {
        IoCommand::Predict(options) => predict::predict(options),
        IoCommand::Report(options) => report::report(options),
    }
}
