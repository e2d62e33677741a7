//! The results of a simulation, as a table, as CSV, as JSON and as curves.

use std::fmt::Write;

use anyhow::Result;
use headwater_figures::plot::{Curve, Plot};
use headwater_figures::text::columns;
use headwater_model::{Outcome, Trace};
use serde_json::{Value, json};

/// One number of nodes.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Nodes that run the program.
    pub nodes: u32,
    /// The time until all daemons are ready.
    pub ready_seconds: f64,
    /// The start with Headwater.
    pub with: Outcome,
    /// The start without.
    pub without: Outcome,
    /// Whether every node was simulated.
    pub is_exact: bool,
}

/// All results.
pub struct Report<'a> {
    /// As named by the user.
    pub trace: &'a str,
    /// As named by the user.
    pub fs: &'a str,
    /// Processes on each node.
    pub ppn: u32,
    /// By ascending number of nodes.
    pub rows: Vec<Row>,
}

impl Report<'_> {
    /// Returns the table as text.
    pub fn text(&self, trace: &Trace) -> String {
        let mut text = format!("{}\n\n", described(trace, self.trace, self.ppn, self.fs));
        let heading = ["NODES", "READY", "SECONDS", "SHARED FS", "WITHOUT", "SHARED FS", "SIMULATED"];
        let mut rows: Vec<Vec<String>> = vec![heading.map(String::from).into()];
        for row in &self.rows {
            rows.push(vec![
                row.nodes.to_string(),
                digits(row.ready_seconds),
                digits(row.with.seconds),
                row.with.counts.requests().to_string(),
                digits(row.without.seconds),
                row.without.counts.requests().to_string(),
                if row.is_exact { "all".into() } else { row.with.simulated.to_string() },
            ]);
        }
        text += &columns(&rows, 0);
        let fallbacks: u64 = self.rows.iter().map(|row| row.with.fallbacks).sum();
        if fallbacks > 0 {
            let _ = writeln!(text, "\n{fallbacks} look-ups of simulated nodes fell back to the shared file system");
        }
        for row in self.rows.iter().filter(|row| row.with.direct_bytes > 0) {
            let (nodes, megabytes) = (row.nodes, digits(row.with.direct_bytes as f64 / 1e6));
            let _ = writeln!(
                text,
                "\n{nodes} nodes: {megabytes} MB of large files were read directly, which was faster than the trees"
            );
        }
        text
    }

    /// Returns the table as CSV.
    pub fn csv(&self) -> String {
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let text = |(_, value): (_, Value)| {
            value.as_u64().map_or_else(|| digits(value.as_f64().unwrap_or(0.0)), |n| n.to_string())
        };
        let names = self.rows.first().map(|row| line(self.cells(row).map(|(name, _)| name.into()).into()));
        names.into_iter().chain(self.rows.iter().map(|row| line(self.cells(row).map(text).into()))).collect()
    }

    /// Returns JSON, on one line.
    pub fn json(&self) -> Result<String> {
        let runs: Vec<Value> = self.rows.iter().map(|row| self.cells(row).into_iter().collect()).collect();
        let all = json!({"trace": self.trace, "fs": self.fs, "ppn": self.ppn, "runs": runs});
        Ok(serde_json::to_string(&all)? + "\n")
    }

    /// Returns a row in CSV and JSON.
    fn cells(&self, row: &Row) -> [(&'static str, Value); 15] {
        [
            ("nodes", row.nodes.into()),
            ("processes", (u64::from(row.nodes) * u64::from(self.ppn)).into()),
            ("ready_seconds", row.ready_seconds.into()),
            ("seconds", row.with.seconds.into()),
            ("first_seconds", row.with.first_seconds.into()),
            ("median_seconds", row.with.median_seconds.into()),
            ("requests", row.with.counts.requests().into()),
            ("bytes", row.with.counts.bytes.into()),
            ("fallbacks", row.with.fallbacks.into()),
            ("direct_bytes", row.with.direct_bytes.into()),
            ("messages", row.with.messages.into()),
            ("simulated", row.with.simulated.into()),
            ("without_seconds", row.without.seconds.into()),
            ("without_requests", row.without.counts.requests().into()),
            ("without_bytes", row.without.counts.bytes.into()),
        ]
    }

    /// Returns a plot of the seconds by nodes, with and without Headwater.
    pub fn plot(&self) -> Plot {
        let curve = |name: &str, seconds: fn(&Row) -> f64| Curve {
            name: name.into(),
            points: self.rows.iter().map(|row| (row.nodes.into(), seconds(row)).into()).collect(),
        };
        Plot {
            title: format!(
                "{}, {} process{} on each node, {}",
                self.trace,
                self.ppn,
                if self.ppn == 1 { "" } else { "es" },
                self.fs
            ),
            note: "predicted".into(),
            x: "nodes".into(),
            y: "seconds until the last process has started".into(),
            curves: vec![
                curve("without Headwater", |row| row.without.seconds),
                curve("with Headwater", |row| row.with.seconds),
            ],
        }
    }
}

/// Describes what is started, in one line.
pub fn described(trace: &Trace, name: &str, ppn: u32, fs: &str) -> String {
    format!(
        "{name}: {} look-ups, {} files, {} s of computing; {ppn} process{} a node; {fs}",
        trace.lookups.len(),
        trace.files(),
        digits(trace.computing_ns() as f64 / 1e9),
        if ppn == 1 { "" } else { "es" }
    )
}

/// Formats a number with three significant digits.
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let places = 2 - value.abs().log10().floor() as i32;
    // What would be rounded up to the next power has one place less.
    let rounded = format!("{value:.*}", places.max(0) as usize);
    match places < 0 {
        true => {
            let step = 10f64.powi(-places);
            format!("{:.0}", (value / step).round() * step)
        }
        false => rounded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_model::Counts;

    fn report() -> Report<'static> {
        let counts = |opens| Counts { opens, ..Counts::default() };
        let with = Outcome { seconds: 1.25, counts: counts(10), simulated: 4, ..Outcome::default() };
        let without = Outcome { seconds: 40.0, counts: counts(480), ..Outcome::default() };
        let row = |nodes| Row { nodes, ready_seconds: 0.1, with, without, is_exact: nodes == 4 };
        Report { trace: "x", fs: "nfs", ppn: 12, rows: vec![row(4), row(4000)] }
    }

    #[test]
    fn three_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (0.001_234_5, "0.00123"),
            (1.0, "1.00"),
            (12.345, "12.3"),
            (123.45, "123"),
            (36_012.3, "36000"),
            (99.96, "100.0"),
        ] {
            assert_eq!(digits(value), expected);
        }
    }

    #[test]
    fn every_form_has_every_row() {
        let report = report();
        let trace = Trace::parse("0 open 1 /sw/a").unwrap();
        assert!(
            report
                .text(&trace)
                .lines()
                .any(|line| line.split_whitespace().eq(["4000", "0.100", "1.25", "10", "40.0", "480", "4"]))
        );
        assert_eq!(report.csv().lines().count(), 3);
        assert!(report.csv().lines().all(|line| line.split(',').count() == 15));
        let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!(json["runs"][1]["without_requests"], 480);
        assert_eq!(json["runs"][0]["seconds"], 1.25);
        assert_eq!(report.plot().curves[0].points, [(4.0, 40.0).into(), (4000.0, 40.0).into()]);
    }
}
