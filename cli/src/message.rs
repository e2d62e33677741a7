//! What headwater says. That nobody listens any more is no reason to fail.

use std::fmt::Display;
use std::io::{Write, stderr};

/// Says a line on standard error, after the command's name, and in one piece: others write there too.
pub fn log(message: impl Display) {
    let _ = stderr().write_all(format!("headwater: {message}\n").as_bytes());
}

/// Writes text as it is.
pub fn show(mut to: impl Write, text: impl Display) {
    let _ = write!(to, "{text}").and_then(|()| to.flush());
}
