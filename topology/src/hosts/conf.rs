//! Readers of files about neighbouring nodes: lines of Slurm's `topology.conf`, and tables of nodes and
//! racks.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::hostlist::Hostlist;
use super::switches_error::{LINKS_MAX, NODES_MAX, SWITCHES_MAX, SwitchesError};

/// A switch, block, ring or rack, and what the file places below it.
#[derive(Debug)]
pub(super) struct Switch {
    pub name: String,
    /// The line that defines it.
    pub line: usize,
    /// Its nodes, each with its line.
    pub nodes: Vec<(usize, Hostlist)>,
    /// The switches below it.
    pub switches: Vec<String>,
}

const NAMING: [&str; 3] = ["switchname", "blockname", "ringname"];
const PASSED_OVER: [&str; 2] = ["linkspeed", "blocksizes"];

/// What was read so far, and its size.
#[derive(Default)]
struct Contents {
    switches: Vec<Switch>,
    hosts: usize,
    links: usize,
}

/// Reads the switches of a `topology.conf`, in its order.
pub(super) fn read_topology_conf(text: &str) -> Result<Vec<Switch>, SwitchesError> {
    let mut contents = Contents::default();
    let mut lines = text.lines().enumerate();
    while let Some((index, first)) = lines.next() {
        let mut joined = String::new();
        let mut part = without_comment(first);
        while let Some(continued) = continued(part) {
            joined.push_str(continued);
            part = lines.next().map_or("", |(_, next)| without_comment(next));
        }
        joined.push_str(part);
        contents.define(index + 1, &joined)?;
    }
    Ok(contents.switches)
}

/// Reads the racks of a table with a node and its rack on each line, in the order in which they first occur.
pub(super) fn read_racks(text: &str) -> Result<Vec<Switch>, SwitchesError> {
    let mut contents = Contents::default();
    let mut numbers = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = without_comment(line).split_ascii_whitespace().collect();
        let &[nodes, rack] = words.as_slice() else {
            if words.is_empty() {
                continue;
            }
            return Err(SwitchesError::Columns { line: index + 1, columns: words.len() });
        };
        let nodes = contents.nodes(index + 1, "the first column", nodes)?;
        let number = *numbers.entry(rack.to_owned()).or_insert(contents.switches.len());
        match contents.switches.get_mut(number) {
            Some(known) => known.nodes.push((index + 1, nodes)),
            None => contents.add(Switch {
                name: switch_name(index + 1, rack)?,
                line: index + 1,
                nodes: Vec::from([(index + 1, nodes)]),
                switches: Vec::new(),
            })?,
        }
    }
    Ok(contents.switches)
}

impl Contents {
    /// Reads one line of a `topology.conf`, already without comment and joined with its continuation.
    fn define(&mut self, line: usize, text: &str) -> Result<(), SwitchesError> {
        let mut words = text.split_ascii_whitespace();
        if words.next().is_some_and(|word| word.eq_ignore_ascii_case("include")) {
            return Err(SwitchesError::Include { line, file: words.next().unwrap_or_default().to_owned() });
        }
        let mut values: BTreeMap<String, &str> = BTreeMap::new();
        let mut rest = text.trim_ascii();
        while !rest.is_empty() {
            let (key, value, behind) = key_and_value(line, rest)?;
            rest = behind;
            let lower = key.to_ascii_lowercase();
            if !NAMING.iter().chain(&PASSED_OVER).chain(&["nodes", "switches"]).any(|known| *known == lower) {
                return Err(SwitchesError::UnknownKey { line, key: key.to_owned() });
            }
            if values.insert(lower, value).is_some() {
                return Err(SwitchesError::Repeated { line, key: key.to_owned() });
            }
        }
        let mut names = NAMING.iter().filter_map(|&key| values.get(key).map(|&name| (key, name)));
        let Some((_, name)) = names.next() else {
            let is_passed_over = values.keys().all(|key| PASSED_OVER.contains(&key.as_str()));
            return if is_passed_over { Ok(()) } else { Err(SwitchesError::Nameless { line }) };
        };
        if let Some((key, _)) = names.next() {
            return Err(SwitchesError::Repeated { line, key: key.to_owned() });
        }
        let nodes = values.get("nodes").map(|nodes| self.nodes(line, "Nodes=", nodes)).transpose()?;
        let switches = values.get("switches").map(|names| self.links(line, names)).transpose()?;
        self.add(Switch {
            name: switch_name(line, name)?,
            line,
            nodes: nodes.into_iter().map(|nodes| (line, nodes)).collect(),
            switches: switches.unwrap_or_default(),
        })
    }

    fn nodes(&mut self, line: usize, place: &'static str, text: &str) -> Result<Hostlist, SwitchesError> {
        let nodes = Hostlist::read_nodes(text).map_err(|problem| SwitchesError::names(line, place, text, problem))?;
        self.hosts += nodes.len();
        let over = SwitchesError::Over { line, what: "nodes", max: NODES_MAX };
        if self.hosts > NODES_MAX { Err(over) } else { Ok(nodes) }
    }

    fn links(&mut self, line: usize, text: &str) -> Result<Vec<String>, SwitchesError> {
        let in_line = |problem| SwitchesError::names(line, "Switches=", text, problem);
        let names = Hostlist::read_switches(text).map_err(in_line)?;
        self.links += names.len();
        let over = SwitchesError::Over { line, what: "names in Switches=", max: LINKS_MAX };
        if self.links > LINKS_MAX { Err(over) } else { Ok(names.iter().collect()) }
    }

    fn add(&mut self, switch: Switch) -> Result<(), SwitchesError> {
        if self.switches.len() == SWITCHES_MAX {
            return Err(SwitchesError::Over { line: switch.line, what: "switches", max: SWITCHES_MAX });
        }
        self.switches.push(switch);
        Ok(())
    }
}

fn switch_name(line: usize, text: &str) -> Result<String, SwitchesError> {
    let in_line = |problem| SwitchesError::names(line, "the name", text, problem);
    let names = Hostlist::read_switches(text).map_err(in_line)?;
    let mut names = names.iter();
    match (names.next(), names.next()) {
        (Some(name), None) => Ok(name),
        _ => Err(SwitchesError::NotOneName { line, text: text.to_owned() }),
    }
}

/// Splits `KEY=VALUE` off; blanks may surround the `=`, and quotation marks the value.
fn key_and_value(line: usize, text: &str) -> Result<(&str, &str, &str), SwitchesError> {
    let broken = || SwitchesError::Syntax { line, text: text.to_owned() };
    let (key, behind) = text.split_once('=').ok_or_else(broken)?;
    let (key, behind) = (key.trim_ascii_end(), behind.trim_ascii_start());
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(broken());
    }
    let (value, rest) = match behind.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').ok_or_else(broken)?,
        None => behind.split_at(behind.find(|c: char| c.is_ascii_whitespace()).unwrap_or(behind.len())),
    };
    if !rest.is_empty() && !rest.starts_with(|c: char| c.is_ascii_whitespace()) {
        return Err(broken());
    }
    Ok((key, value, rest.trim_ascii_start()))
}

/// Returns the line up to its `#`.
fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or(line)
}

/// Returns what precedes the backslash of a line that continues in the next.
fn continued(line: &str) -> Option<&str> {
    line.trim_ascii_end().strip_suffix('\\')
}
