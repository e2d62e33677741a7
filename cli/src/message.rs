//! Output of the command. A closed output is not an error.

use std::fmt::Display;
use std::io::{Write, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use headwater_daemon::{Priority, priority_prefix};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The line on the terminal that is drawn over, if there is one.
static STATUS: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Writes a line to standard error, with the command's name, by one write: other processes write there, too. A message
/// that begins with `warning: ` is a warning for journald.
pub fn log(message: impl Display) {
    let message = message.to_string();
    let priority = if message.starts_with("warning: ") { Priority::Warning } else { Priority::Info };
    write_line(priority, &message);
}

/// Writes the line of an error that ends the command, as [`log`] does.
pub fn fail(message: impl Display) {
    write_line(Priority::Error, &message.to_string());
}

fn write_line(priority: Priority, message: &str) {
    let text = format!("headwater: {message}\n");
    // journald takes each line by itself.
    let prefix = priority_prefix(priority);
    let lines: String = text.split_inclusive('\n').flat_map(|line| [prefix, line]).collect();
    let write = || drop(stderr().write_all(lines.as_bytes()));
    match &*status() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Writes text unchanged.
pub fn show(mut to: impl Write, text: impl Display) {
    let _ = write!(to, "{text}").and_then(|()| to.flush());
}

/// Draws a line on the terminal over the one before, without an end; `None` removes it.
pub fn show_status(text: Option<String>) {
    let mut status = status();
    match text {
        Some(text) => status.get_or_insert_with(new_status).set_message(text),
        None => {
            if let Some(bar) = status.take() {
                bar.finish_and_clear();
            }
        }
    }
}

fn new_status() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
}

fn status() -> MutexGuard<'static, Option<ProgressBar>> {
    STATUS.lock().unwrap_or_else(PoisonError::into_inner)
}
