//! The overlay by the user's options.

mod arrangement;
mod fold;
pub mod options;
pub mod overview;
pub mod picture;
pub mod render;
pub mod transport;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use headwater_topology::hosts::Switches;

pub use self::arrangement::Arrangement;
use self::options::{ShapeOptions, local_nodes};
use crate::message::log;

/// Returns the arrangement of so many nodes of this machine. A missing topology file is only a warning, since the file
/// only makes transfers faster.
///
/// # Errors
/// The options contradict each other or the nodes.
pub fn arrange(options: &ShapeOptions, nodes: u32) -> Result<Arrangement> {
    let arrangement = Arrangement::new(options, &local_nodes(nodes), switches(options).as_ref())?;
    warn_of_unplaced(options, &arrangement);
    Ok(arrangement)
}

/// Reads the topology file of the options. Reports a file that can't be read, and returns `None`.
pub fn switches(options: &ShapeOptions) -> Option<Switches> {
    options.topology.as_deref().map(read_switches).transpose().unwrap_or_else(|error| {
        log(format_args!("warning: {error:#}. Going on with the nodes in their own order"));
        None
    })
}

/// Warns of nodes that the topology file lacks.
pub fn warn_of_unplaced(options: &ShapeOptions, arrangement: &Arrangement) {
    if let (Some(file), unplaced @ 1..) = (&options.topology, arrangement.unplaced) {
        let of = arrangement.nodes.len();
        log(format_args!("warning: {} lacks {unplaced} of {of} nodes; they come last", file.display()));
    }
}

/// Reads a topology file. Only Slurm's format has `=`.
pub fn read_switches(file: &Path) -> Result<Switches> {
    let text = fs::read_to_string(file);
    let text = text.with_context(|| format!("--topology {} can't be read", file.display()))?;
    let is_slurms = text.lines().any(|line| line.split('#').next().is_some_and(|line| line.contains('=')));
    let switches = if is_slurms { Switches::parse_topology_conf(&text) } else { Switches::parse_racks(&text) };
    switches.with_context(|| format!("--topology {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_recognized() {
        let directory = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let file = directory.path().join("file");
            fs::write(&file, text).unwrap();
            read_switches(&file).map(|switches| switches.leaf("n1").map(str::to_owned))
        };
        assert_eq!(read("# a=b\nn[0-1] rack7\n").unwrap().as_deref(), Some("rack7"));
        assert_eq!(read("SwitchName=s1 Nodes=n[0-1]\n").unwrap().as_deref(), Some("s1"));
        assert!(format!("{:#}", read("n0 a b\n").unwrap_err()).contains("--topology"));
        assert!(read_switches(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn without_its_file_a_session_goes_on() {
        let lost = ShapeOptions { topology: Some("/nonexistent".into()), ..ShapeOptions::default() };
        assert_eq!(arrange(&lost, 5).unwrap(), arrange(&ShapeOptions::default(), 5).unwrap());
    }
}
