//! What a run fetches ahead, and what becomes of what its nodes report.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Result, anyhow};
use headwater_closure::scope::Scope;
use headwater_daemon::Preload;

use crate::closures::Learning;
use crate::options::run::RunOptions;
use crate::seal::SealedRun;
use crate::session::records::Records;
use crate::summary::Summary;

/// Why something is fetched ahead.
pub enum Ahead {
    /// The run is sealed.
    Sealed(SealedRun),
    /// Runs of this program leave it for each other.
    Learning(Learning),
    /// The user has named it, or wants nothing.
    Named,
}

impl Ahead {
    /// Returns what fits a program, `command`, whose file is `program`.
    ///
    /// # Errors
    /// The run is sealed, and something differs.
    pub fn of(options: &RunOptions, command: &[OsString], program: &Path, scope: &Scope) -> Result<Ahead> {
        if let Some(sealed) = SealedRun::check(&options.sealed)? {
            return Ok(Ahead::Sealed(sealed));
        }
        Ok(Learning::of(&options.service, command, program, scope).map_or(Ahead::Named, Ahead::Learning))
    }

    /// Returns what to fetch; `None` for what the user has named.
    pub fn preload(&self) -> Option<Preload> {
        match self {
            Ahead::Sealed(sealed) => Some(sealed.preload()),
            Ahead::Learning(learning) => learning.preload(),
            Ahead::Named => None,
        }
    }

    /// Returns what nodes report.
    pub fn records(&self) -> Records {
        match self {
            Ahead::Sealed(_) => Records::All,
            Ahead::Learning(_) => Records::First,
            Ahead::Named => Records::None,
        }
    }

    /// Uses what the nodes have reported, once the program has ended.
    ///
    /// # Errors
    /// The run is sealed, and something differed.
    pub fn settle(&self, summary: &Summary, recorded: &[String]) -> Result<()> {
        match self {
            Ahead::Sealed(sealed) => sealed.settle(summary, recorded)?,
            Ahead::Learning(learning) => learning.keep(recorded),
            Ahead::Named => {}
        }
        Ok(())
    }
}

/// Checks that a program may run without Headwater.
///
/// # Errors
/// The run is sealed.
pub fn allow_without(options: &RunOptions, why: &str) -> Result<()> {
    match options.sealed.sealed {
        Some(_) => Err(anyhow!("a sealed run needs Headwater, so nothing was started: {why}")),
        None => Ok(()),
    }
}
