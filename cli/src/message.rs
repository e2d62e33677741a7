//! Output of the command. A closed output is not an error.

use std::fmt::Display;
use std::io::{Write, stderr};

use headwater_daemon::{Priority, priority_prefix};

/// Writes a line to standard error, with the command's name, by one write: other processes write there, too. A message
/// that begins with `warning: ` is a warning for journald.
pub fn log(message: impl Display) {
    let message = message.to_string();
    let priority = if message.starts_with("warning: ") { Priority::Warning } else { Priority::Info };
    write(priority, &message);
}

/// Writes the line of an error that ends the command, as [`log`] does.
pub fn fail(message: impl Display) {
    write(Priority::Error, &message.to_string());
}

fn write(priority: Priority, message: &str) {
    let text = format!("headwater: {message}\n");
    // journald takes each line by itself.
    let prefix = priority_prefix(priority);
    let lines: String = text.split_inclusive('\n').flat_map(|line| [prefix, line]).collect();
    let _ = stderr().write_all(lines.as_bytes());
}

/// Writes text unchanged.
pub fn show(mut to: impl Write, text: impl Display) {
    let _ = write!(to, "{text}").and_then(|()| to.flush());
}
