//! Prometheus's text form, version 0.0.4.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::families::{Family, Kind, Value};

/// How the names of all metrics begin.
const PREFIX: &str = "headwater";

/// The type of the text in HTTP.
pub(super) const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Returns these metrics as text.
pub fn encode(families: Vec<Family>) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Collected(families)));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry).expect("a String takes all text");
    text
}

#[derive(Debug)]
struct Collected(Vec<Family>);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0 {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for sample in &family.samples {
                let mut sample_encoder = metric.encode_family(&sample.labels)?;
                match &sample.value {
                    Value::Count(count) => sample_encoder.encode_counter::<NoLabelSet, u64, f64>(count, None)?,
                    Value::Level(level) => sample_encoder.encode_gauge(level)?,
                    Value::Histogram { sum, count, buckets } => {
                        sample_encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::families::{Session, of_sessions};
    use super::*;
    use headwater_daemon::protocol::PathText;
    use headwater_daemon::stats::{
        Latency, LinkStats, MountStats, NodeStats, OperationStats, PeerStats, Relation, Role,
    };

    /// Returns the text of a node of a site export, with all metrics.
    pub(in super::super) fn full() -> String {
        let peer = |rank, name: &str, is_up| PeerStats {
            rank,
            name: Some(name.into()),
            address: Some(format!("{name}:7447")),
            role: Role::Reader,
            relation: Relation::Parent,
            is_up,
            ..PeerStats::default()
        };
        let latency = Latency { sum_ns: 1_500_000, counts: [0, 0, 1, 2, 0, 0, 0, 0], ..Latency::default() };
        let operation = OperationStats { name: "read".into(), count: 3, from_table: 2, latency, ..Default::default() };
        let stats = NodeStats {
            name: "n0001".into(),
            rank: 2,
            ranks: 9,
            uptime_ms: 1500,
            version: "1.2".into(),
            export: Some(PathText::Text("/ud\"sl".into())),
            mount: Some(MountStats { mount_point: PathText::Text("/udsl".into()), ..MountStats::default() }),
            links: LinkStats {
                up: 1,
                down: 1,
                peers: vec![peer(0, "io01", false), peer(1, "io02", true)],
                ..LinkStats::default()
            },
            operations: vec![operation],
            ..NodeStats::default()
        };
        encode(of_sessions(&[Session { name: "0123".into(), nodes: vec![stats], silent: 1 }]))
    }

    #[test]
    fn the_text_is_prometheuss() {
        let text = full();
        let node = r#"session="/ud\"sl",node="n0001",rank="2",role="leaf""#;
        let has = |line: String| assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        has("# TYPE headwater_uptime_seconds gauge".into());
        has(format!("headwater_uptime_seconds{{{node}}} 1.5"));
        has(r#"headwater_daemons{session="/ud\"sl"} 2.0"#.into());
        has(r#"headwater_daemons_silent{session="/ud\"sl"} 1.0"#.into());
        has(format!(r#"headwater_daemon_info{{{node},version="1.2",mount="/udsl"}} 1.0"#));
        has("# TYPE headwater_mount_requests_total counter".into());
        has(format!("headwater_mount_requests_total{{{node}}} 0"));
        has(format!(r#"headwater_links{{{node},state="down"}} 1.0"#));
        let link = |name: &str| {
            format!(r#"{node},peer="{name}",peer_role="reader",peer_address="{name}:7447",relation="parent""#)
        };
        has(format!("headwater_link_up{{{}}} 0.0", link("io01")));
        has(format!("headwater_link_up{{{}}} 1.0", link("io02")));
        has(format!(r#"headwater_operation_answers_total{{{node},operation="read",from="table"}} 2"#));
        has(format!(r#"headwater_operation_duration_seconds_bucket{{{node},operation="read",le="0.0001"}} 1"#));
        has(format!(r#"headwater_operation_duration_seconds_bucket{{{node},operation="read",le="+Inf"}} 3"#));
        has(format!(r#"headwater_operation_duration_seconds_sum{{{node},operation="read"}} 0.0015"#));
        assert_eq!(encode(of_sessions(&[])), "", "without a session there is nothing to print");
    }

    #[test]
    fn each_metric_has_a_type_once_and_a_help() {
        let text = full();
        let names = |start: &str| -> Vec<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(start));
            lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
        };
        let (types, helps) = (names("# TYPE "), names("# HELP "));
        assert!(types.len() > 40 && types == helps, "{types:?}");
        assert!(types.iter().enumerate().all(|(at, name)| !types[..at].contains(name)), "{types:?}");
        for sample in text.lines().filter(|line| !line.starts_with('#')) {
            let name = sample.split(['{', ' ']).next().unwrap();
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(types.iter().any(|known| known == base || known == name), "{sample}");
        }
    }

    #[test]
    fn the_dashboard_has_metrics_that_are_printed() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../integrations/grafana/headwater.json");
        let dashboard = std::fs::read_to_string(file).unwrap();
        let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
        let panels = dashboard["panels"].as_array().unwrap().iter();
        let queries = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
        let queries: Vec<&str> = queries.map(|target| target["expr"].as_str().unwrap()).collect();
        let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
        let variables = variables.filter_map(|variable| variable["query"].as_str()).collect::<Vec<_>>();
        assert!(queries.len() > 15 && variables.len() == 3, "{queries:?} {variables:?}");
        let text = full();
        let words = |query: &str| -> Vec<String> {
            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            words.filter(|word| word.starts_with(PREFIX)).map(str::to_owned).collect()
        };
        for name in queries.iter().chain(&variables).flat_map(|query| words(query)) {
            let is_printed =
                text.lines().any(|line| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with('{')));
            assert!(is_printed, "the dashboard has {name}, which is not printed");
        }
        assert!(queries.iter().all(|query| !words(query).is_empty()), "{queries:?}");
    }
}
