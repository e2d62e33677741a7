//! `headwater topology`: shows the overlay that would be used.

use std::io::stdout;

use anyhow::{Context, Result, ensure};
use headwater_topology::TreeId;

use crate::message::show;
use crate::topology::options::TopologyOptions;
use crate::topology::overview::Plan;
use crate::topology::picture::Picture;
use crate::topology::{Arrangement, read_switches, render, warn_of_unplaced};

/// Prints the overlay that would be used.
///
/// # Errors
/// The options contradict each other or the nodes, or the file can't be read.
pub fn topology(options: &TopologyOptions) -> Result<u8> {
    let switches = options.shape.topology.as_deref().map(read_switches).transpose()?;
    let arrangement = Arrangement::new(&options.shape, &options.nodes, switches.as_ref())?;
    warn_of_unplaced(&options.shape, &arrangement);
    let plan = Plan::new(&options.nodes, &arrangement);
    let tree = options.tree.map(TreeId);
    if let Some(TreeId(tree)) = tree {
        let trees = plan.forest.trees();
        ensure!(tree < trees, "--tree {tree}: trees are numbered 0 to {}", trees - 1);
    }
    let picture = || Picture::new(&plan, tree.unwrap_or(TreeId(0)), switches.as_ref());
    let text = match &options.of {
        Some(name) => {
            let node = options.nodes.rank_of(name).with_context(|| format!("--of {name}"))?;
            let of = plan.of(arrangement.ranks()[node.0 as usize], tree);
            if options.json { serde_json::to_string_pretty(&of)? + "\n" } else { of.to_string() }
        }
        None if options.dot => {
            let mut graph = String::new();
            render::dot(&plan, tree, &mut graph)?;
            graph
        }
        None if options.svg => picture().svg(),
        None if options.json => serde_json::to_string_pretty(&plan.overview(tree))? + "\n",
        None => format!("{}\n{}", plan.overview(tree), picture()),
    };
    show(stdout(), text);
    Ok(0)
}
