//! Errors of command lines into which no prefix can be put.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// How deep launchers may be nested.
pub const NESTED_MAX: usize = 8;

/// Why the position of a prefix is unclear. Each message contains the remedy.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// There is no argument at all.
    #[error("there is no command: give one after `--`")]
    Empty,
    /// A launcher without a program.
    #[error("{launcher} is given no program to start: add one, or put a marker before it and name it with --marker")]
    NoProgram { launcher: String },
    /// An unknown option, followed by an argument that may be its value or the program.
    #[error(
        "{option} of {launcher} is not known here, and `{argument}` may be its value or the program: write \
         {option}=VALUE, or put @ right before the program and say `headwater run --marker @`"
    )]
    Unsure { launcher: String, option: String, argument: String },
    /// A launcher that starts a script, which contains the programs.
    #[error(
        "{launcher} starts a script, which is not examined: put `headwater run --` before the launcher in \
         that script, and use {launcher} without Headwater{instead}"
    )]
    Script { launcher: String, instead: &'static str },
    /// A launcher that makes an allocation, with a command that is no launcher.
    #[error(
        "{launcher} starts {program}, which is no launcher: put `headwater run --` before the launcher that \
         {program} uses, and use {launcher} without Headwater"
    )]
    NoLauncher { launcher: String, program: String },
    /// A launcher whose command line is unknown.
    #[error(
        "the command line of {launcher} is not known here: put @ right before the program and say \
         `headwater run --marker @`"
    )]
    Unsupported { launcher: String },
    /// An option with which the programs can't be found.
    #[error("{option} of {launcher} {why}")]
    Refused { launcher: String, option: &'static str, why: &'static str },
    /// A launcher with a name that several have, and without a known version.
    #[error(
        "{} has a name of several launchers, and `--version` doesn't identify it: put @ right before \
         the program and say `headwater run --marker @`",
        file.display()
    )]
    WhichLauncher { file: PathBuf },
    /// There is no such launcher.
    #[error("{launcher} is not found: load its module, or give its path")]
    NotFound { launcher: String },
    /// A wrapper with unknown options and, it seems, a launcher behind it.
    #[error(
        "it isn't known where the command of {wrapper} begins: put `headwater run --` behind {wrapper} and its \
         options"
    )]
    Wrapper { wrapper: String },
    /// Launchers are nested too deep.
    #[error("launchers are nested more than {} deep: use fewer", NESTED_MAX)]
    Nested,
    /// A launcher's file can't be read.
    #[error("{}, which {launcher} is to read: {cause}", file.display())]
    File {
        launcher: String,
        file: PathBuf,
        #[source]
        cause: io::Error,
    },
    /// An argument of the prefix can't be written in a launcher's file.
    #[error("{} can't contain the argument `{argument}` because of its blanks or quotes: use a directory without them", file.display())]
    Unwritable { file: PathBuf, argument: String },
    /// The marker is missing.
    #[error("the marker {marker} is not in the command: put it right before the program")]
    NoMarker { marker: String },
    /// No argument follows a marker.
    #[error("no argument follows the marker {marker}: put it right before the program")]
    MarkerLast { marker: String },
}
