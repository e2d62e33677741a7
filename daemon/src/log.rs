//! Messages on standard error: lines for users, or log lines with `HEADWATER_LOG`.

use std::fmt;
use std::io::{self, IsTerminal};

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
        Ok(filter) => base().with_env_filter(filter).with_ansi(io::stderr().is_terminal()).try_init(),
        Err(_) => base().with_env_filter(EnvFilter::new("warn")).event_format(Plain).try_init(),
    };
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
    fn a_user_reads_a_line() {
        let mut fields = LineFields { message: "the store is full".into(), about: Vec::new() };
        assert_eq!(fields.line("warning"), "headwater: warning: the store is full");
        fields.about = vec!["path: /a".into(), "bytes: 5".into()];
        assert_eq!(fields.line("error"), "headwater: error: the store is full (path: /a, bytes: 5)");
    }
}
