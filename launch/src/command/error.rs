//! Why no prefix is put into a command line.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// How deep launchers may stand in one another.
pub const NESTED_MAX: usize = 8;

/// Why it isn't clear where a prefix belongs. Each says what to do.
#[derive(Debug, Error)]
pub enum Error {
    /// There is no word at all.
    #[error("there is no command: give one after `--`")]
    Empty,
    /// A launcher without a program.
    #[error("{launcher} is given no program to start: add one, or put a marker before it and name it with --marker")]
    NoProgram {
        /// The launcher, as it was called.
        launcher: String,
    },
    /// An option that isn't known, and behind it a word that may be its value or the program.
    #[error(
        "{option} of {launcher} is not known here, and `{argument}` may be its value or the program: write \
         {option}=VALUE, or put @ right before the program and say `headwater run --marker @`"
    )]
    Unsure {
        /// The launcher, as it was called.
        launcher: String,
        /// The option.
        option: String,
        /// The word behind it.
        argument: String,
    },
    /// A launcher that starts a script, in which the programs are.
    #[error(
        "{launcher} starts a script, which is not looked into: put `headwater run --` before the launcher in \
         that script, and use {launcher} without Headwater{instead}"
    )]
    Script {
        /// The launcher, as it was called.
        launcher: String,
        /// What can be had instead, where there is something.
        instead: &'static str,
    },
    /// A launcher that makes an allocation, behind which no launcher stands.
    #[error(
        "{launcher} starts {program}, which is no launcher: put `headwater run --` before the launcher that \
         {program} uses, and use {launcher} without Headwater"
    )]
    NoLauncher {
        /// The launcher, as it was called.
        launcher: String,
        /// What it starts.
        program: String,
    },
    /// A launcher whose command line isn't known.
    #[error(
        "the command line of {launcher} is not known here: put @ right before the program and say \
         `headwater run --marker @`"
    )]
    Unsupported {
        /// The launcher, as it was called.
        launcher: String,
    },
    /// An option with which the programs can't be found.
    #[error("{option} of {launcher} {why}")]
    Refused {
        /// The launcher, as it was called.
        launcher: String,
        /// The option.
        option: &'static str,
        /// What it does, and what to do instead.
        why: &'static str,
    },
    /// A launcher of a name that several have, and it doesn't say which it is.
    #[error(
        "{} is called as several launchers are, and `--version` doesn't tell which it is: put @ right before \
         the program and say `headwater run --marker @`",
        file.display()
    )]
    WhichLauncher {
        /// The launcher's file.
        file: PathBuf,
    },
    /// There is no such launcher.
    #[error("{launcher} is not found: load its module, or give its path")]
    NotFound {
        /// The launcher, as it was called.
        launcher: String,
    },
    /// A wrapper's options aren't known, and a launcher seems to stand behind it.
    #[error(
        "it isn't known where the command of {wrapper} begins: put `headwater run --` behind {wrapper} and its \
         options"
    )]
    Wrapper {
        /// The wrapper, as it was called.
        wrapper: String,
    },
    /// Launchers start launchers, too many times over.
    #[error("launchers stand in one another more than {} times: use fewer", NESTED_MAX)]
    Nested,
    /// A file of a launcher's can't be read.
    #[error("{}, which {launcher} is to read: {cause}", file.display())]
    File {
        /// The launcher, as it was called.
        launcher: String,
        /// The file, as it was named.
        file: PathBuf,
        /// What is wrong with it.
        #[source]
        cause: io::Error,
    },
    /// A file of a launcher's can't hold a word of the prefix.
    #[error("{} can't hold the word `{argument}`, for its blanks or quotes: use a directory without them", file.display())]
    Unwritable {
        /// The file, as it was named.
        file: PathBuf,
        /// The word.
        argument: String,
    },
    /// The marker isn't there.
    #[error("the marker {marker} stands nowhere in the command: put it right before the program")]
    NoMarker {
        /// The marker.
        marker: String,
    },
    /// Nothing stands behind a marker.
    #[error("nothing stands behind the marker {marker}: put it right before the program")]
    MarkerLast {
        /// The marker.
        marker: String,
    },
}
