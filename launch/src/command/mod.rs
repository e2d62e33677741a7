//! Command lines of launchers: the position of each program, and the line with a prefix before it.
//!
//! [`prepare`] knows the launchers' options, so it skips them as the launcher does. It follows programs that
//! execute their arguments (`env A=1 srun …`) and launchers that start launchers (`salloc -N2 srun …`). If an
//! argument may be an option's value or the program, the [`World`] decides which is an executable file, and
//! if both or neither are, that is an [`Error`]: a prefix in a wrong position would silently become an
//! argument of something else.

use std::ffi::{OsStr, OsString};

mod error;
mod family;
mod files;
mod find;
mod grammar;
mod line;
mod prepared;
// A table is read by its columns of names.
#[rustfmt::skip]
mod table;
#[cfg(test)]
mod tests;
mod world;

pub use error::{Error, NESTED_MAX};
pub use prepared::{Prepared, Replacement};
pub use world::World;

use self::prepared::list;
use crate::Launcher;

/// Puts `prefix` before each program that the command `arguments` starts. No other argument is changed.
///
/// With a `marker`, programs are where it is, and nothing else is examined. Without, `world` resolves
/// arguments and files. A command that is no launcher is the program itself.
///
/// # Errors
/// If the position of a program is unclear; each [`Error`] contains the remedy.
pub fn prepare(
    arguments: &[OsString],
    prefix: &[OsString],
    marker: Option<&OsStr>,
    world: &dyn World,
) -> Result<Prepared, Error> {
    if arguments.is_empty() {
        return Err(Error::Empty);
    }
    match marker {
        Some(marker) => marked(arguments, prefix, marker),
        None => find::find(arguments, prefix, world),
    }
}

/// Returns the command with the prefix in place of each marker.
fn marked(arguments: &[OsString], prefix: &[OsString], marker: &OsStr) -> Result<Prepared, Error> {
    let name = || marker.to_string_lossy().into_owned();
    let mut prepared = Vec::with_capacity(arguments.len() + prefix.len());
    let mut programs = Vec::new();
    for (number, argument) in arguments.iter().enumerate() {
        if argument != marker {
            prepared.push(argument.clone());
            continue;
        }
        let behind = arguments.get(number + 1).filter(|behind| *behind != marker);
        programs.push(behind.ok_or_else(|| Error::MarkerLast { marker: name() })?);
        prepared.extend_from_slice(prefix);
    }
    if programs.is_empty() {
        return Err(Error::NoMarker { marker: name() });
    }
    let launcher = (arguments[0] != marker).then_some(Launcher::Marked);
    let explanation = match launcher {
        Some(_) => format!("{} starts {}, at the marker", arguments[0].display(), list(&programs)),
        None => format!("{} is the program, at the marker", list(&programs)),
    };
    Ok(Prepared {
        arguments: prepared,
        files: Vec::new(),
        launcher,
        is_detached: false,
        is_on_all_hosts: false,
        explanation,
    })
}
