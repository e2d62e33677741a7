//! What is watched and found, as metrics of Prometheus.

use std::sync::{Arc, Mutex, PoisonError};

use super::finding::counted;
use super::judge::{Judge, Load};
use crate::metrics::families::{Family, Kind, Sample, Value, family};

/// What metrics show, and the main thread updates after each interval.
#[derive(Clone, Debug, Default)]
pub struct Shown(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Mount, type, what is counted, and the rate per second.
    rates: Vec<(String, String, &'static str, f64)>,
    over: Vec<Load>,
    findings: u64,
}

impl Shown {
    /// Shows the present state, after `findings` further findings.
    pub fn update(&self, judge: &Judge, findings: usize) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rate = |(mounted, rate, what): &(Arc<super::mounts::Mounted>, f64, _)| {
            (mounted.point.display().to_string(), mounted.kind.clone(), counted(*what), *rate)
        };
        state.rates = judge.rates().map(rate).collect();
        state.over = judge.over().cloned().collect();
        state.findings += findings as u64;
    }

    /// Returns the metrics.
    pub fn families(&self) -> Vec<Family> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rate = |(mount, kind, what, rate): &(String, String, &str, f64)| Sample {
            labels: vec![("mount", mount.clone()), ("file_system", kind.clone()), ("counted", String::from(*what))],
            value: Value::Level(*rate),
        };
        let over = |load: &Load| {
            let (kind, id) = load.job.as_ref().map_or(("none", ""), |job| (job.kind.name(), &job.id));
            Sample {
                labels: vec![
                    ("mount", load.mounted.point.display().to_string()),
                    ("job_kind", kind.to_owned()),
                    ("job", id.to_owned()),
                    ("uid", load.job.as_ref().map(|_| load.uid.to_string()).unwrap_or_default()),
                    ("program", load.program.clone()),
                ],
                value: Value::Level(load.per_second),
            }
        };
        let one = |value| vec![Sample { labels: Vec::new(), value }];
        let mut families = vec![
            family(
                "guard_operations_per_second",
                "Operations of all processes of this node in the last interval.",
                Kind::Gauge,
                state.rates.iter().map(rate).collect(),
            ),
            family(
                "guard_job_operations_per_second",
                "The highest rate of a job that is over the limit now.",
                Kind::Gauge,
                state.over.iter().map(over).collect(),
            ),
            family(
                "guard_findings",
                "Jobs that were named, and their ends.",
                Kind::Counter,
                one(Value::Count(state.findings)),
            ),
            family(
                "guard_processor_seconds",
                "Processor time of the guard itself since its start.",
                Kind::Gauge,
                one(Value::Level(processor_seconds())),
            ),
        ];
        families.retain(|family| !family.samples.is_empty());
        families
    }
}

/// Returns the processor time of this process.
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
