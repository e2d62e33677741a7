//! The text of `--report`: how processes were made, their rate and their times.

use std::fmt::{self, Display};
use std::time::Duration;

/// Counts and times of all processes.
#[derive(Debug)]
pub struct Report {
    /// Number of started processes.
    pub started: usize,
    /// Number of requested processes.
    pub wanted: usize,
    /// The program's name.
    pub program: String,
    /// How they were made.
    pub mechanism: &'static str,
    /// The reason for that.
    pub why: Option<String>,
    /// The time to prepare the program and its zygote.
    pub prepared: Duration,
    /// The time from the first call to the return of the last.
    pub starting: Duration,
    /// For each process, the duration of the call that started it.
    pub calls: Vec<Duration>,
    /// For each process, the time from that call until it was reaped.
    pub lifetimes: Vec<Duration>,
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = if self.started < self.wanted { format!(" of {}", self.wanted) } else { String::new() };
        let because = self.why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        let rate = self.started as f64 / self.starting.as_secs_f64().max(1e-9);
        writeln!(
            f,
            "headwater: {}{wanted} processes of {} by {}{because}: started in {}, {rate:.0} a second, after {} of \
             preparation",
            self.started,
            self.program,
            self.mechanism,
            Time(self.starting),
            Time(self.prepared)
        )?;
        let mut line = |what: &str, times: &[Duration]| {
            if times.is_empty() {
                return Ok(());
            }
            let mut times = times.to_vec();
            times.sort_unstable();
            let [p50, p90, p99, most] = [50, 90, 99, 100].map(|percent| Time(percentile(&times, percent)));
            writeln!(f, "  {what:<22} p50 {p50:>8}  p90 {p90:>8}  p99 {p99:>8}  max {most:>8}")
        };
        line("until the call is back", &self.calls)?;
        line("until the process ends", &self.lifetimes)
    }
}

/// Returns a percentile of the sorted times.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}

/// A time with the unit in which it has three digits.
struct Time(Duration);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        let (number, unit) = match seconds {
            s if s >= 1.0 => (s, "s"),
            s if s >= 1e-3 => (s * 1e3, "ms"),
            s => (s * 1e6, "µs"),
        };
        let decimals = if number >= 100.0 {
            0
        } else if number >= 10.0 {
            1
        } else {
            2
        };
        f.pad(&format!("{number:.decimals$} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        for (percent, expected_ms) in [(50, 100), (90, 180), (99, 198), (100, 200)] {
            assert_eq!(percentile(&times, percent), Duration::from_millis(expected_ms));
        }
        assert_eq!(percentile(&times[..1], 50), Duration::from_millis(1));
    }

    #[test]
    fn times_have_units() {
        for (micros, expected) in [(7, "7.00 µs"), (12_340, "12.3 ms"), (999_000, "999 ms"), (1_500_000, "1.50 s")] {
            assert_eq!(Time(Duration::from_micros(micros)).to_string(), expected);
        }
    }
}
