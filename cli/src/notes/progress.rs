//! What a run waits for before the program starts: on a terminal as a line that vanishes, elsewhere as one message if it
//! takes very long. The line is removed before the program starts, since the terminal is the program's from then on.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::audience::Audience;
use crate::message::{log, show_status};

/// How long a run may take before its progress is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(2);
/// How long a step may take before it is reported.
const REPORTED_AFTER: Duration = Duration::from_secs(20);
/// How often the line is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(250);

/// Something that a run waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The text, as `examining /sw/app`.
    pub text: String,
    /// The probable cause and the next step if it takes very long.
    pub if_long: &'static str,
}

impl Step {
    /// The examination of a program's files.
    pub fn examining(program: &str) -> Step {
        let if_long =
            "Its file system, or one of its search paths, may hang: check them with `ls`, or end this with Ctrl-C";
        Step { text: format!("examining {program} and its directories"), if_long }
    }

    /// The start of daemons.
    pub fn starting(daemons: u32, mechanism: &str) -> Step {
        let daemons = if daemons == 1 { "the daemon".into() } else { format!("{daemons} daemons") };
        let if_long = "The machine may be short of memory or processors: check it with `headwater doctor`";
        Step { text: format!("starting {daemons} (--via {mechanism})"), if_long }
    }
}

/// The progress of a run, until this is dropped.
#[derive(Debug)]
pub struct Progress {
    steps: Option<Sender<Step>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins with a step.
    pub fn start(audience: Audience, first: Step) -> Progress {
        let (steps, received) = channel();
        let thread = thread::Builder::new().name("progress".into());
        // Without a thread, nothing is shown.
        let thread = thread.spawn(move || watch(&received, audience, first)).ok();
        Progress { steps: Some(steps), thread }
    }

    /// Goes on with another step.
    pub fn step(&self, step: Step) {
        if let Some(steps) = &self.steps {
            // The send fails if there is no thread.
            let _ = steps.send(step);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.steps.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is due after some time.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    is_drawn: bool,
    is_reported: bool,
}

impl Due {
    fn after(run: Duration, step: Duration, audience: Audience) -> Due {
        let is_drawn = audience.sees_progress() && run >= SHOWN_AFTER;
        Due { is_drawn, is_reported: audience.reads_failures() && step >= REPORTED_AFTER }
    }
}

fn watch(steps: &Receiver<Step>, audience: Audience, first: Step) {
    let begun = Instant::now();
    let (mut step, mut since, mut is_reported) = (first, begun, false);
    loop {
        match steps.recv_timeout(DRAWN_EVERY) {
            Ok(next) => (step, since) = (next, Instant::now()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let due = Due::after(begun.elapsed(), since.elapsed(), audience);
        if due.is_reported && !is_reported {
            is_reported = true;
            log(format_args!("still {} after {} s. {}", step.text, since.elapsed().as_secs(), step.if_long));
        }
        if due.is_drawn {
            show_status(Some(format!("headwater: {}, {} s", step.text, begun.elapsed().as_secs())));
        }
    }
    show_status(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_sees_it_soon_and_a_log_has_what_hangs() {
        let person = Audience { is_terminal: true, ..Audience::default() };
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let of = |run, step, audience| {
            let due = Due::after(run, step, audience);
            (due.is_drawn, due.is_reported)
        };
        assert_eq!(of(second, second, person), (false, false));
        assert_eq!(of(SHOWN_AFTER, second, person), (true, false));
        assert_eq!(of(minute, minute, person), (true, true));
        assert_eq!(of(minute, second, Audience::default()), (false, false));
        assert_eq!(of(minute, minute, Audience::default()), (false, true));
        assert_eq!(of(minute, minute, Audience { is_quiet: true, ..person }), (false, false));
        assert_eq!(of(minute, minute, Audience { is_later_rank: true, ..Audience::default() }), (false, false));
    }

    #[test]
    fn it_ends_at_once() {
        let begun = Instant::now();
        let progress = Progress::start(Audience::default(), Step::examining("app"));
        progress.step(Step::starting(4, "audit"));
        drop(progress);
        assert!(begun.elapsed() < SHOWN_AFTER);
        assert_eq!(Step::starting(1, "audit").text, "starting the daemon (--via audit)");
    }
}
