//! What Headwater would save, by the model.

use anyhow::{Context, Result};
use headwater_model::{Detail, Machine, Network, Trace};
use headwater_report::start::{Gain, GainOptions};
use headwater_topology::{Forest, Shape};

use super::options::ExplainOptions;
use crate::simulate::inputs;

/// Predicts the start of a run's look-ups on each number of nodes; none if there are no look-ups.
pub fn gain(options: &ExplainOptions, trace: &Trace) -> Result<(Vec<Gain>, Option<GainOptions>)> {
    let mut gains = Vec::new();
    if trace.lookups.is_empty() {
        return Ok((gains, None));
    }
    let file_system = inputs::file_system(&options.fs)?;
    let machine = Machine { network: Network::default(), file_system, processes: options.ppn, seed: 1 };
    for &nodes in &options.nodes.0 {
        let forest = Forest::new(nodes, 0, Shape::default_of(nodes));
        let detail = Detail::for_nodes(nodes);
        let with = headwater_model::with_headwater(trace, &machine, forest, detail, &mut |_| {});
        let with = with.context("the start can't be predicted")?;
        let without = headwater_model::without_headwater(trace, &machine, nodes)?;
        gains.push(Gain {
            nodes,
            without_seconds: without.seconds,
            with_seconds: with.seconds,
            without_requests: without.counts.requests(),
            with_requests: with.counts.requests(),
        });
    }
    let of = GainOptions {
        file_system: options.fs.clone(),
        processes_per_node: options.ppn,
        shared: options.shared(),
        look_ups: trace.lookups.len() as u64,
    };
    Ok((gains, Some(of)))
}
