//! What is served of a program's files, and to which processes.

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ValueEnum, ValueHint};
use headwater_daemon::Kinds;

use super::headings::{MECHANISM, OVERLAY, SCOPE};
use crate::preload::PreloadOption;

/// What is served, and to which processes.
#[derive(Clone, Debug, Args)]
pub struct ServedOptions {
    /// Defaults of --serve and --preload: low (libraries, no preloading), medium (libraries, python and executables, no
    /// preloading) or high (all). Names that are absent are answered at each level
    #[arg(long, value_name = "LEVEL", env = "HEADWATER_LEVEL", value_enum, default_value = "high",
          hide_possible_values = true, help_heading = SCOPE)]
    level: Level,

    /// The kinds of files that are served, some of libraries,python,executables,data, or none; programs read others from
    /// their file system. Names and attributes are answered for all [default: that of --level]
    #[arg(long, value_name = "KINDS", env = "HEADWATER_SERVE", help_heading = SCOPE)]
    pub serve: Option<Kinds>,

    /// Whether what the program starts is served, too (yes or no); with no, it runs without Headwater (audit only)
    #[arg(long, value_name = "WHETHER", env = "HEADWATER_FOLLOW_FORK", default_value = "yes", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(["yes", "no"]).map(|text| text == "yes"), action = ArgAction::Set,
          help_heading = MECHANISM)]
    pub follow_fork: bool,

    /// Files that are sent to all nodes before the program opens them: auto (those that its last run used, at first the
    /// libraries that it is linked with), off, or those that a file names: one that `headwater record` wrote, or a list of
    /// paths [default: that of --level]
    #[arg(long, value_name = "WHAT", env = "HEADWATER_PRELOAD",
          value_parser = OsStringValueParser::new().map(PreloadOption::from), value_hint = ValueHint::FilePath,
          help_heading = OVERLAY)]
    pub preload: Option<PreloadOption>,
}

/// A set of defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Level {
    /// Libraries.
    Low,
    /// Libraries, Python's files and executables.
    Medium,
    /// All, with preloading.
    High,
}

impl ServedOptions {
    /// Returns the kinds of files that are served.
    pub fn kinds(&self) -> Kinds {
        self.serve.unwrap_or(match self.level {
            Level::Low => Kinds::LIBRARIES,
            Level::Medium => Kinds::LIBRARIES | Kinds::PYTHON | Kinds::EXECUTABLES,
            Level::High => Kinds::all(),
        })
    }

    /// Returns what is preloaded.
    pub fn preload(&self) -> PreloadOption {
        let of_level = if self.level == Level::High { PreloadOption::Auto } else { PreloadOption::Off };
        self.preload.clone().unwrap_or(of_level)
    }
}
