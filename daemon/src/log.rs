//! Messages on standard error: lines for users, or log lines with `HEADWATER_LOG`. For journald, they begin with their
//! priority (sd-daemon(3)).

use std::env;
use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Logs to standard error as `HEADWATER_LOG` configures.
pub fn log_to_stderr() {
    // Failures of logging would be logged on standard error too, and a full file system would end the process.
    let base = || tracing_subscriber::fmt().log_internal_errors(false).with_writer(io::stderr);
    // A second subscriber in one process is refused; the first one then serves both.
    let _ = match EnvFilter::try_from_env("HEADWATER_LOG") {
        Ok(filter) => {
            let lines = Prioritized(tracing_subscriber::fmt::format());
            base().with_env_filter(filter).with_ansi(io::stderr().is_terminal()).event_format(lines).try_init()
        }
        Err(_) => base().with_env_filter(EnvFilter::new("warn")).event_format(Prioritized(Plain)).try_init(),
    };
}

/// How important a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Something has failed.
    Error,
    /// Something works less well than it could.
    Warning,
    /// Something has happened.
    Info,
    /// For developers.
    Debug,
}

/// Returns what a line on standard error begins with: its priority if journald reads it, else nothing.
pub fn priority_prefix(priority: Priority) -> &'static str {
    static GOES_TO_JOURNAL: OnceLock<bool> = OnceLock::new();
    let is_journal = GOES_TO_JOURNAL.get_or_init(|| {
        let own = rustix::fs::fstat(io::stderr()).map(|stat| (stat.st_dev, stat.st_ino));
        own.is_ok_and(|own| env::var("JOURNAL_STREAM").is_ok_and(|stream| names_file(&stream, own)))
    });
    match priority {
        _ if !is_journal => "",
        Priority::Error => "<3>",
        Priority::Warning => "<4>",
        Priority::Info => "<6>",
        Priority::Debug => "<7>",
    }
}

/// Returns whether the variable JOURNAL_STREAM names the file with this device and number: a process whose output goes
/// elsewhere may have inherited the variable.
fn names_file(stream: &str, (device, number): (u64, u64)) -> bool {
    stream.split_once(':').is_some_and(|(d, n)| d.parse() == Ok(device) && n.parse() == Ok(number))
}

/// A format whose lines begin with their priority.
struct Prioritized<F>(F);

impl<S, N, F> FormatEvent<S, N> for Prioritized<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => Priority::Error,
            Level::WARN => Priority::Warning,
            Level::INFO => Priority::Info,
            _ => Priority::Debug,
        };
        writer.write_str(priority_prefix(priority))?;
        self.0.format_event(context, writer, event)
    }
}

/// The format of the command line's warnings: the message, then its fields in brackets.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let kind = if *event.metadata().level() == Level::ERROR { "error" } else { "warning" };
        let mut fields = LineFields::default();
        event.record(&mut fields);
        writeln!(writer, "{}", fields.line(kind))
    }
}

#[derive(Default)]
struct LineFields {
    message: String,
    about: Vec<String>,
}

impl LineFields {
    fn line(&self, kind: &str) -> String {
        let about = if self.about.is_empty() { String::new() } else { format!(" ({})", self.about.join(", ")) };
        format!("headwater: {kind}: {}{about}", self.message)
    }
}

impl Visit for LineFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.about.push(format!("{}: {value:?}", name.replace('_', " "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journald_is_recognized_by_its_file() {
        assert!(names_file("9:1234", (9, 1234)));
        for other in ["", "9", ":", "9:1235", "8:1234", "9:1234:1", "x:1234", "9:99999999999999999999"] {
            assert!(!names_file(other, (9, 1234)), "{other}");
        }
    }

    #[test]
    fn a_user_reads_a_line() {
        let mut fields = LineFields { message: "the store is full".into(), about: Vec::new() };
        assert_eq!(fields.line("warning"), "headwater: warning: the store is full");
        fields.about = vec!["path: /a".into(), "bytes: 5".into()];
        assert_eq!(fields.line("error"), "headwater: error: the store is full (path: /a, bytes: 5)");
    }
}
