//! What a tracer's messages mean for a report: what it lacks, and what the program was refused.

use headwater_tracer::{Message, Refusal};

/// The beginning of a line with a note, in a file with events. It is no event.
pub const LINE: &str = "#note ";

/// The beginning of a line with the moment of the program's start: microseconds of the monotonic clock.
pub const START: &str = "#start ";

/// What a message means for the user.
pub enum Missing {
    /// A line of the report.
    Note(String),
    /// A line at once: the program does not run as it would.
    Warning(String),
}

/// Returns what a message means; `None` if nothing is missing.
pub fn of(message: &Message) -> Option<Missing> {
    let note = match message {
        Message::Privileged(file) => format!(
            "{} is left out, with what it starts: only untraced it has its privileges (set-ID, or capabilities).",
            file.display()
        ),
        Message::Handed(file) => {
            format!("A process of {} is left out: the program traces it itself.", file.display())
        }
        Message::Lost(count) => format!("{count} further events are left out."),
        Message::Released(at_ns) => format!("It was followed for {} s, and ran on.", at_ns / 1_000_000_000),
        Message::Refused(what, file) => {
            let what = match what {
                Refusal::Tracing => "could not trace another process",
                Refusal::StrictMode => "could not enter the strict mode of seccomp",
            };
            return Some(Missing::Warning(format!(
                "warning: {} {what}, because a filter stops it at calls on files: use --exact",
                file.display()
            )));
        }
        Message::Program(_) | Message::Event(_) | Message::Untraced(_) | Message::Ended(_) => return None,
    };
    Some(Missing::Note(note.replace('\n', " ")))
}
