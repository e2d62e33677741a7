//! Output of the command. A closed output is not an error.

use std::fmt::Display;
use std::io::{Write, stderr};

/// Writes a line to standard error, with the command's name, by one write: other processes write there, too.
pub fn log(message: impl Display) {
    let _ = stderr().write_all(format!("headwater: {message}\n").as_bytes());
}

/// Writes text unchanged.
pub fn show(mut to: impl Write, text: impl Display) {
    let _ = write!(to, "{text}").and_then(|()| to.flush());
}
