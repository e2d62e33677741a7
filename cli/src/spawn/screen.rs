//! The terminal, shared by lines of processes and a progress bar.

use std::fmt::Arguments;
use std::io::{IsTerminal, Write, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::options::Progress;

/// The time before a bar is shown.
const DELAY: Duration = Duration::from_secs(1);
/// How often a bar is drawn, and how often a line is written where there is no terminal.
const DRAWN_EVERY: Duration = Duration::from_millis(100);
const WRITTEN_EVERY: Duration = Duration::from_secs(5);
const BAR_CELLS: u32 = 30;
const CLEAR: &[u8] = b"\r\x1b[K";

/// Standard error, as far as a bar is on it.
#[derive(Debug, Default)]
pub struct Screen {
    has_bar: Mutex<bool>,
}

impl Screen {
    /// Removes a bar, and calls `write`, which writes to the terminal.
    pub fn cleared<R>(&self, write: impl FnOnce() -> R) -> R {
        let mut has_bar = self.has_bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if std::mem::take(&mut *has_bar) {
            let _ = stderr().write_all(CLEAR);
        }
        write()
    }

    fn draw(&self, bar: Arguments<'_>) {
        let mut has_bar = self.has_bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *has_bar = write!(stderr(), "\r\x1b[K{bar}").is_ok();
    }
}

/// The progress of starting, shown at intervals.
#[derive(Debug)]
pub struct Shown<'a> {
    screen: &'a Screen,
    wanted: u32,
    is_terminal: bool,
    next: Option<Instant>,
}

impl<'a> Shown<'a> {
    /// Returns the progress before the first process.
    pub fn new(screen: &'a Screen, when: Progress, wanted: u32) -> Shown<'a> {
        let is_terminal = stderr().is_terminal();
        let next = match when {
            Progress::Never => None,
            Progress::Auto => is_terminal.then(|| Instant::now() + DELAY),
            Progress::Always => Some(Instant::now()),
        };
        Shown { screen, wanted, is_terminal, next }
    }

    /// Shows the number of started processes, if it is time.
    pub fn show(&mut self, started: u32) {
        let now = Instant::now();
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        let wanted = self.wanted;
        if self.is_terminal {
            let full = (u64::from(started) * u64::from(BAR_CELLS) / u64::from(wanted.max(1))) as usize;
            let (done, left) = ("#".repeat(full), " ".repeat(BAR_CELLS as usize - full));
            self.screen.draw(format_args!("headwater: [{done}{left}] {started} of {wanted} started"));
        } else {
            crate::message::log(format_args!("{started} of {wanted} started"));
        }
        self.next = Some(now + if self.is_terminal { DRAWN_EVERY } else { WRITTEN_EVERY });
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.screen.cleared(|| ());
    }
}
