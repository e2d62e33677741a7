//! A list of nodes' names, stored as the expressions that it was written in.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use thiserror::Error;

use super::fold::Fold;
use super::parse::{Alphabet, HOSTS_MAX, HostlistError, Problem, Result, check_name, read};
use super::pattern::Pattern;
use crate::Rank;

/// Names of nodes in an order; a name may occur several times. A name's number in the list, from 0, is the
/// node's rank.
///
/// Names are made on demand: a list takes as much memory as its text, times a constant. Two lists are equal
/// if they have the same names in the same order.
#[derive(Clone, Debug, Default)]
pub struct Hostlist {
    patterns: Vec<Pattern>,
    /// For each pattern, the rank of its first name.
    starts: Vec<u32>,
    len: usize,
}

/// Why a name has no rank.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NoRank {
    /// Neither the name is in the list, nor one that differs in the domain alone.
    #[error("{0} is not in the hostlist: add it, or give its name in the list")]
    Unknown(String),
    /// The name has no domain, and several names in the list begin with it.
    #[error("{name} may be {first} or {other}: give the one that is meant")]
    Ambiguous {
        /// The name.
        name: String,
        /// The first candidate.
        first: String,
        /// Another candidate.
        other: String,
    },
}

impl Hostlist {
    /// Reads Slurm's syntax: expressions such as `node[001-128,200]` or `rack[1-4]n[01-16]-ib`, separated by
    /// commas or blanks. No expression at all is an empty list.
    ///
    /// Of several groups the last varies fastest; of three and more then the first, the second and so
    /// on, as in Slurm.
    pub fn parse(text: &str) -> core::result::Result<Hostlist, HostlistError> {
        Hostlist::read_nodes(text).map_err(|problem| HostlistError::new(text, problem))
    }

    /// Makes a list of these names, folded into few expressions. Names are without brackets.
    pub fn from_names<N: AsRef<str>>(
        names: impl IntoIterator<Item = N>,
    ) -> core::result::Result<Hostlist, HostlistError> {
        let (mut fold, mut len) = (Fold::default(), 0);
        for name in names {
            let name = name.as_ref();
            let room = if len < HOSTS_MAX { Ok(()) } else { Err((0, Problem::Hosts)) };
            let checked = room.and_then(|()| check_name(name));
            len += 1;
            checked.map_err(|problem| HostlistError { line: len, ..HostlistError::new(name, problem) })?;
            fold.push(name);
        }
        Ok(Hostlist::of(fold.finish(), len))
    }

    /// Reads names of switches.
    pub(super) fn read_switches(text: &str) -> Result<Hostlist> {
        Hostlist::read(text, Alphabet::Switches)
    }

    /// Reads nodes as [`Hostlist::parse`], with the problem's position as an offset in the text.
    pub(super) fn read_nodes(text: &str) -> Result<Hostlist> {
        Hostlist::read(text, Alphabet::Nodes)
    }

    fn read(text: &str, alphabet: Alphabet) -> Result<Hostlist> {
        let (patterns, len) = read(text, alphabet)?;
        Ok(Hostlist::of(patterns, len))
    }

    fn of(patterns: Vec<Pattern>, len: usize) -> Hostlist {
        let mut starts = Vec::with_capacity(patterns.len());
        let mut next = 0;
        for pattern in &patterns {
            starts.push(next);
            next += pattern.len();
        }
        assert_eq!(next as usize, len, "the length is that of the expressions");
        Hostlist { patterns, starts, len }
    }

    /// Returns the number of names, at most [`HOSTS_MAX`].
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the name of this rank.
    pub fn name(&self, Rank(rank): Rank) -> Option<String> {
        let exists = (rank as usize) < self.len;
        exists.then(|| {
            let mut name = String::new();
            let number = self.starts.partition_point(|&start| start <= rank) - 1;
            self.patterns[number].write(rank - self.starts[number], &mut name);
            name
        })
    }

    /// Returns the names in their order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = String> + ExactSizeIterator + Clone {
        (0..self.len as u32).map(|rank| self.name(Rank(rank)).expect("the rank is below the list's length"))
    }

    /// Returns the first rank of `name`.
    ///
    /// If it isn't in the list, a name that differs in its domain alone is used, as in Slurm:
    /// `node001.cluster` finds `node001`, and `node001` finds `node001.cluster` if no other name in the list
    /// begins with `node001.`. Two names with different domains are different nodes, and an address has no
    /// domain.
    ///
    /// The time grows with the number of expressions; if the list has domains, or numbers that run into one
    /// another, with the number of names.
    pub fn rank_of(&self, name: &str) -> core::result::Result<Rank, NoRank> {
        let short = || host_part(name).and_then(|short| self.find(short));
        let found = match self.find(name).or_else(short) {
            Some(rank) => Some(rank),
            None => self.find_by_host_part(name)?,
        };
        found.map(Rank).ok_or_else(|| NoRank::Unknown(name.into()))
    }

    fn find(&self, name: &str) -> Option<u32> {
        let mut found = self.patterns.iter().zip(&self.starts);
        found.find_map(|(pattern, start)| pattern.find(name).map(|index| start + index))
    }

    /// Finds the name of which `wanted` is the part before the domain.
    fn find_by_host_part(&self, wanted: &str) -> core::result::Result<Option<u32>, NoRank> {
        let mut found: Option<(u32, String)> = None;
        let mut name = String::new();
        for (pattern, start) in self.patterns.iter().zip(&self.starts).filter(|(pattern, _)| pattern.has_dot()) {
            for index in 0..pattern.len() {
                name.clear();
                pattern.write(index, &mut name);
                if !name.starts_with(wanted) || host_part(&name) != Some(wanted) {
                    continue;
                }
                match &found {
                    None => found = Some((start + index, name.clone())),
                    Some((_, first)) if *first == name => {}
                    Some((_, first)) => {
                        return Err(NoRank::Ambiguous { name: wanted.into(), first: first.clone(), other: name });
                    }
                }
            }
        }
        Ok(found.map(|(rank, _)| rank))
    }

    /// Returns the same list in as few expressions as the order of its names allows.
    pub fn folded(&self) -> Hostlist {
        let mut fold = Fold::default();
        self.for_each_name(|name| fold.push(name));
        Hostlist::of(fold.finish(), self.len)
    }

    /// Returns the list without repeated names, folded.
    pub fn distinct(&self) -> Hostlist {
        let (mut fold, mut seen) = (Fold::default(), BTreeSet::new());
        self.for_each_name(|name| {
            if !seen.contains(name) {
                seen.insert(String::from(name));
                fold.push(name);
            }
        });
        Hostlist::of(fold.finish(), seen.len())
    }

    fn for_each_name(&self, mut action: impl FnMut(&str)) {
        let mut name = String::new();
        for pattern in &self.patterns {
            for index in 0..pattern.len() {
                name.clear();
                pattern.write(index, &mut name);
                action(&name);
            }
        }
    }
}

/// Returns the part of a name before its domain, if it has one. An address has none.
pub(super) fn host_part(name: &str) -> Option<&str> {
    let (host, _) = name.split_once('.')?;
    (!host.is_empty() && name.parse::<IpAddr>().is_err()).then_some(host)
}

/// Writes the expressions, separated by commas.
impl fmt::Display for Hostlist {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, pattern) in self.patterns.iter().enumerate() {
            write!(out, "{}{pattern}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Hostlist {
    type Err = HostlistError;

    fn from_str(text: &str) -> core::result::Result<Hostlist, HostlistError> {
        Hostlist::parse(text)
    }
}

impl PartialEq for Hostlist {
    fn eq(&self, other: &Hostlist) -> bool {
        self.patterns == other.patterns || (self.len == other.len && self.iter().eq(other.iter()))
    }
}

impl Eq for Hostlist {}

#[cfg(test)]
mod tests;
