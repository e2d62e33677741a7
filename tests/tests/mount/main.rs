//! The mounted file system: all of its operations, and the events around it.
//!
//! They run `target/dist/bin/headwater`; `cargo xtask dist` makes it.

mod ahead;
mod blocks;
mod changed_sources;
mod counts;
mod deep;
mod first_read;
mod generated;
mod holes;
mod kinds;
mod links;
mod listings;
mod maps;
mod permissions;
mod special;
mod survival;
mod traps;
mod users;
mod waiting;
mod writing;

use std::path::Path;

use headwater_tests::harness::Mechanism;
use headwater_tests::model::{Action, Operation, execute};

/// The mechanisms that mount.
const MOUNTED: [Mechanism; 2] = [Mechanism::Mount, Mechanism::Namespace];

/// Panics unless each of these has the same result in both directories.
fn assert_alike(plain: &Path, view: &Path, paths: &[&str], actions: &[Action]) {
    for path in paths {
        for action in actions {
            let operation = Operation::new(*path, action.clone());
            assert_eq!(execute(view, &operation), execute(plain, &operation), "{action:?} of {path}");
        }
    }
}
