//! The results of planning.

use std::fmt::Write;

use anyhow::Result;
use headwater_figures::plot::{Curve, Plot};
use headwater_figures::text::columns;
use headwater_model::{Outcome, Plan, Trace, Trial, readers};
use headwater_topology::{Branching, Shape};
use serde_json::{Value, json};

use super::report::digits;

/// The trials on so many nodes.
pub struct Report {
    /// Nodes.
    pub nodes: u32,
    /// Processes on each.
    pub ppn: u32,
    /// The start without Headwater.
    pub without: Outcome,
    /// The trials, and the best of them.
    pub plan: Plan,
}

impl Report {
    fn parts(&self) -> [(&'static str, &[Trial]); 5] {
        [
            ("readers", &self.plan.by_readers),
            ("servers", &self.plan.by_servers),
            ("trees", &self.plan.by_trees),
            ("groups", &self.plan.by_groups),
            ("one tree", &self.plan.by_fan_out),
        ]
    }

    /// Returns tables and a recommendation as text.
    pub fn text(&self, trace: &Trace) -> String {
        let mut text = format!(
            "{} nodes, {} processes a node, {} look-ups, {} files; without Headwater {} s\n",
            self.nodes,
            self.ppn,
            trace.lookups.len(),
            trace.files(),
            digits(self.without.seconds)
        );
        for (name, trials) in self.parts().into_iter().filter(|(_, trials)| !trials.is_empty()) {
            let heading = [&*name.to_uppercase(), "SECONDS", "SHARED FS", "GB READ"].map(String::from);
            let mut rows = vec![heading.to_vec()];
            for trial in trials {
                let Outcome { seconds, counts, .. } = trial.outcome;
                let cells = [
                    label(trial.shape, name),
                    digits(seconds),
                    counts.requests().to_string(),
                    digits(counts.bytes as f64 / 1e9),
                ];
                rows.push(cells.to_vec());
            }
            let _ = write!(text, "\n{}", columns(&rows, 0));
        }
        let best = self.plan.best;
        let _ = writeln!(text, "\nRecommended: {} ({} s)", options(best, self.nodes), digits(best.outcome.seconds));
        text
    }

    /// Returns the table as CSV.
    pub fn csv(&self) -> String {
        let mut text = String::from("varied,value,seconds,requests,bytes\n");
        for (name, trials) in self.parts() {
            for trial in trials {
                let Outcome { seconds, counts, .. } = trial.outcome;
                let value = label(trial.shape, name);
                let _ = writeln!(text, "{name},{value},{},{},{}", digits(seconds), counts.requests(), counts.bytes);
            }
        }
        text
    }

    /// Returns JSON, on one line.
    pub fn json(&self) -> Result<String> {
        let trial = |name: &str, trial: &Trial| -> Value {
            let Outcome { seconds, counts, .. } = trial.outcome;
            json!({"value": label(trial.shape, name), "seconds": seconds, "requests": counts.requests(), "bytes": counts.bytes})
        };
        let trials = |(name, all): (&'static str, &[Trial])| {
            (name.replace(' ', "_"), all.iter().map(|one| trial(name, one)).collect::<Value>())
        };
        let all = json!({
            "nodes": self.nodes,
            "ppn": self.ppn,
            "without_seconds": self.without.seconds,
            "tried": self.parts().into_iter().map(trials).collect::<serde_json::Map<_, _>>(),
            "recommended": {"options": options(self.plan.best, self.nodes), "seconds": self.plan.best.outcome.seconds},
        });
        Ok(serde_json::to_string(&all)? + "\n")
    }

    /// Returns a plot of the seconds by the number of readers, servers, trees and groups.
    pub fn plot(&self, trace: &str) -> Plot {
        let curve = |(name, trials): (&str, &[Trial])| {
            let points = trials.iter().map(|trial| (count(trial.shape, name), trial.outcome.seconds).into()).collect();
            Curve { name: format!("by {name}"), points }
        };
        let numbered = self.parts().into_iter().filter(|(name, trials)| *name != "one tree" && !trials.is_empty());
        Plot {
            title: format!("{trace}, {} nodes, processes on each node: {}", self.nodes, self.ppn),
            note: "predicted".into(),
            x: "readers, servers, trees or groups".into(),
            y: "seconds until the last process has started".into(),
            curves: numbered.map(curve).collect(),
        }
    }
}

fn count(shape: Shape, varied: &str) -> f64 {
    match shape {
        Shape::Striped { trees, .. } if varied == "trees" => trees.into(),
        _ => readers(shape).into(),
    }
}

fn label(shape: Shape, varied: &str) -> String {
    match shape {
        Shape::Single(branching) => branching_name(branching),
        _ => count(shape, varied).to_string(),
    }
}

fn branching_name(branching: Branching) -> String {
    match branching {
        Branching::KAry(fan_out) => fan_out.to_string(),
        Branching::Binomial => "binomial".into(),
    }
}

/// Returns the options for a shape.
fn options(Trial { shape, servers, .. }: Trial, nodes: u32) -> String {
    match shape {
        Shape::Striped { trees, .. } if servers > 0 => format!("--servers {servers} --trees {trees}"),
        _ if shape == Shape::default_of(nodes) => "the default".into(),
        Shape::Single(branching) => format!("--fan-out {}", branching_name(branching)),
        Shape::Striped { trees, readers } => format!("--trees {trees} --readers {readers}"),
        Shape::Partitioned { groups, branching } => {
            format!("--groups {groups} --fan-out {}", branching_name(branching))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_tried_is_shown() {
        let trial = |shape, seconds| {
            let outcome = Outcome { seconds, ..Outcome::default() };
            Trial { shape, servers: 0, outcome }
        };
        let striped = |trees, readers, seconds| trial(Shape::Striped { trees, readers }, seconds);
        let plan = Plan {
            by_trees: vec![striped(2, 2, 3.0), striped(8, 2, 2.0)],
            by_readers: vec![striped(8, 1, 2.5), striped(8, 4, 1.5)],
            by_servers: vec![Trial { servers: 3, ..striped(8, 3, 1.6) }],
            by_groups: vec![trial(Shape::Partitioned { groups: 4, branching: Branching::KAry(8) }, 1.75)],
            by_fan_out: vec![trial(Shape::Single(Branching::Binomial), 4.0)],
            best: striped(8, 4, 1.5),
        };
        let report = Report { nodes: 100, ppn: 2, without: Outcome::default(), plan };
        let text = report.text(&Trace::parse("0 open 1 /sw/a").unwrap());
        for part in [
            "READERS",
            "SERVERS",
            "TREES",
            "GROUPS",
            "ONE TREE",
            "binomial",
            "Recommended: --trees 8 --readers 4 (1.50 s)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(report.csv().lines().count(), 8);
        let json: Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!(json["tried"]["trees"][1]["value"], "8");
        assert_eq!(report.plot("x").curves.len(), 4);
    }
}
