//! `headwater io`: what the I/O library would gain, and what it did.

use anyhow::Result;

use crate::io::commands::IoCommand;
use crate::io::{predict, report};

/// Runs the command; returns the exit status.
///
/// # Errors
/// Input that can't be used, or output that can't be written.
pub fn io(command: &IoCommand) -> Result<u8> {
    match command {
        IoCommand::Predict(options) => predict::predict(options),
        IoCommand::Report(options) => report::report(options),
    }
}
