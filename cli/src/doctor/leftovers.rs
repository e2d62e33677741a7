//! Leftovers of killed sessions.

use std::path::Path;

use headwater_supervisor::{remove_stale, stale_mounts};

use super::check::Check;
use crate::session::{directory, store};

/// Checks for directories of dead sessions.
pub fn sessions(named: Option<&Path>) -> Check {
    const NAME: &str = "dead sessions";
    let dead: Vec<_> = store::candidates(named).iter().flat_map(|s| directory::dead(s)).collect();
    match dead.first() {
        None => Check::ok(NAME, "none"),
        Some(first) => {
            let found = format!("{}, such as {}", dead.len(), first.display());
            Check::warning(NAME, found, "`headwater doctor --fix` removes them, and so does the next start there")
        }
    }
}

/// Checks for mounts whose servers have died.
pub fn mounts() -> Check {
    const NAME: &str = "stale mounts";
    match stale_mounts() {
        Ok(stale) if stale.is_empty() => Check::ok(NAME, "none"),
        Ok(stale) => {
            let found = format!("{}, such as {}", stale.len(), stale[0].display());
            Check::warning(NAME, found, "`headwater doctor --fix` removes them")
        }
        Err(error) => Check::warning(NAME, format!("not known: {error}"), "mount /proc"),
    }
}

/// Removes both; returns what was removed.
pub fn remove(named: Option<&Path>) -> Vec<String> {
    let mut removed = Vec::new();
    for mount in stale_mounts().unwrap_or_default() {
        if remove_stale(&mount).is_ok() {
            removed.push(format!("the mount {}", mount.display()));
        }
    }
    for store in store::candidates(named) {
        removed
            .extend(directory::remove_dead(&store).iter().map(|session| format!("the session {}", session.display())));
    }
    removed
}
