//! Which nodes share a switch, and the order of ranks that follows from it.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Bound;

use super::conf::{Switch, read_racks, read_topology_conf};
use super::hostlist::{Hostlist, host_part};
use super::switches_error::SwitchesError;
use crate::Rank;

/// Switches of a cycle that an error names.
const CYCLE_NAMES_MAX: usize = 8;

/// A network's switches with the nodes at each, in the order of a walk through the tree of switches: switches
/// and nodes in the order of the file, a subtree directly after its switch.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    /// The names of the switches that have nodes, in the order of the walk.
    leaves: Vec<String>,
    /// Each node's position in the walk, and the number of its leaf.
    nodes: BTreeMap<String, (u32, u32)>,
}

/// An order of a hostlist's ranks in which ranks at one leaf switch are neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Every rank of the hostlist once.
    pub ranks: Vec<Rank>,
    /// Number of ranks, at the end, of nodes at no switch; they are in the hostlist's order.
    pub unknown: usize,
}

impl Switches {
    /// Reads Slurm's `topology.conf`, of the plugins `topology/tree`, `topology/block` and `topology/ring`.
    /// Link speeds and block sizes are ignored; `Include` is an error. Of a switch below several others, the
    /// first counts.
    pub fn parse_topology_conf(text: &str) -> Result<Switches, SwitchesError> {
        walk(&read_topology_conf(text)?)
    }

    /// Reads a table with a node (or an expression for several) and its rack on each line. A `#` begins a
    /// comment.
    pub fn parse_racks(text: &str) -> Result<Switches, SwitchesError> {
        walk(&read_racks(text)?)
    }

    /// Returns the leaf switch, block, ring or rack of a node. As in [`Hostlist::rank_of`], a domain need not
    /// be given on both sides.
    pub fn leaf(&self, node: &str) -> Option<&str> {
        self.find(node).map(|(_, leaf)| self.leaves[leaf as usize].as_str())
    }

    /// Returns the order in which ranks at one leaf are neighbours, and leaves below one switch are. Ranks of
    /// one name, and of unknown nodes, retain their relative order.
    pub fn order(&self, hosts: &Hostlist) -> Order {
        let place = |name: &str| self.find(name).map_or(u32::MAX, |(place, _)| place);
        let names = hosts.iter().zip(0..);
        let mut places: Vec<(u32, u32)> = names.map(|(name, rank)| (place(&name), rank)).collect();
        places.sort_unstable();
        let unknown = places.iter().filter(|(place, _)| *place == u32::MAX).count();
        Order { ranks: places.into_iter().map(|(_, rank)| Rank(rank)).collect(), unknown }
    }

    fn find(&self, node: &str) -> Option<(u32, u32)> {
        let exact = self.nodes.get(node);
        exact.or_else(|| self.nodes.get(host_part(node)?)).or_else(|| self.find_with_domain(node)).copied()
    }

    /// Returns the only node whose name is this one with a domain.
    fn find_with_domain(&self, host: &str) -> Option<&(u32, u32)> {
        // The character after `.` is `/`.
        let (first, end) = (host.to_owned() + ".", host.to_owned() + "/");
        let range = (Bound::Included(first.as_str()), Bound::Excluded(end.as_str()));
        let mut found = self.nodes.range::<str, _>(range).filter(|(name, _)| host_part(name) == Some(host));
        let (_, only) = found.next()?;
        found.next().is_none().then_some(only)
    }
}

/// Walks through the switches from the top down.
fn walk(switches: &[Switch]) -> Result<Switches, SwitchesError> {
    let children = children(switches)?;
    let mut has_parent = Vec::from_iter(switches.iter().map(|_| false));
    children.iter().flatten().for_each(|&child| has_parent[child] = true);
    let mut walk = Walk { switches, children: &children, state: alloc::vec![State::New; switches.len()] };
    let mut found = Switches::default();
    let roots = (0..switches.len()).filter(|&number| !has_parent[number]);
    // Beginning anywhere too, because no root is above a cycle.
    for root in roots.chain(0..switches.len()) {
        walk.below(root, &mut found)?;
    }
    Ok(found)
}

/// Returns for each switch the numbers of those below it.
fn children(switches: &[Switch]) -> Result<Vec<Vec<usize>>, SwitchesError> {
    let mut numbers = BTreeMap::new();
    for (number, switch) in switches.iter().enumerate() {
        if let Some(first) = numbers.insert(switch.name.as_str(), number) {
            let (name, first_line) = (switch.name.clone(), switches[first].line);
            return Err(SwitchesError::SameSwitch { line: switch.line, name, first_line });
        }
    }
    let number = |line: usize, name: &String| {
        let missing = || SwitchesError::NoSuchSwitch { line, name: name.clone() };
        numbers.get(name.as_str()).copied().ok_or_else(missing)
    };
    let below = |switch: &Switch| switch.switches.iter().map(|name| number(switch.line, name)).collect();
    switches.iter().map(below).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    /// On the path from the top to the walk's position.
    Open,
    Done,
}

struct Walk<'a> {
    switches: &'a [Switch],
    children: &'a [Vec<usize>],
    state: Vec<State>,
}

impl Walk<'_> {
    /// Walks through `top` and what is below it, unless it was visited before.
    fn below(&mut self, top: usize, found: &mut Switches) -> Result<(), SwitchesError> {
        let mut path: Vec<(usize, usize)> = Vec::new();
        let mut next = Some(top).filter(|&top| self.state[top] == State::New);
        loop {
            if let Some(number) = next.take() {
                self.state[number] = State::Open;
                found.add_leaf(&self.switches[number])?;
                path.push((number, 0));
            }
            let Some((number, at)) = path.last_mut() else { return Ok(()) };
            let Some(&child) = self.children[*number].get(*at) else {
                self.state[*number] = State::Done;
                path.pop();
                continue;
            };
            *at += 1;
            match self.state[child] {
                State::New => next = Some(child),
                State::Open => return Err(self.cycle(&path, child)),
                State::Done => {}
            }
        }
    }

    fn cycle(&self, path: &[(usize, usize)], child: usize) -> SwitchesError {
        let names = path.iter().map(|&(number, _)| number).skip_while(|&number| number != child);
        let names: Vec<&str> = names.map(|number| self.switches[number].name.as_str()).collect();
        let shown = names[..names.len().min(CYCLE_NAMES_MAX)].join(", ");
        let names = if names.len() > CYCLE_NAMES_MAX { shown + ", …" } else { shown };
        SwitchesError::Cycle { line: self.switches[child].line, names }
    }
}

impl Switches {
    fn add_leaf(&mut self, switch: &Switch) -> Result<(), SwitchesError> {
        let leaf = self.leaves.len() as u32;
        for (line, nodes) in &switch.nodes {
            for node in nodes.iter() {
                let here = (self.nodes.len() as u32, leaf);
                match self.nodes.entry(node) {
                    Entry::Vacant(place) => place.insert(here),
                    Entry::Occupied(place) => {
                        let first = self.leaves.get(place.get().1 as usize).unwrap_or(&switch.name).clone();
                        let (line, switch) = (*line, switch.name.clone());
                        return Err(SwitchesError::SameNode { line, node: place.key().clone(), switch, first });
                    }
                };
            }
        }
        if !switch.nodes.is_empty() {
            self.leaves.push(switch.name.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
