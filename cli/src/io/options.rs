//! Options of the I/O library.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use serde::{Deserialize, Serialize};

use crate::options::headings::MPI_IO;

/// Options of the I/O library in `headwater run`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct IoOptions {
    /// MPI programs that read or write a file on one rank for all: auto (the ranks do it together where that is
    /// quicker), verify (and the first times are compared with the original), observe (what is found is reported,
    /// nothing changed), off [default: off]
    #[arg(long, value_name = "HOW", env = "HEADWATER_IO", value_enum, hide_possible_values = true,
          help_heading = MPI_IO)]
    pub io: Option<IoMode>,

    /// Store what --io learns about the program in this file, for the next run
    #[arg(long, value_name = "FILE", env = "HEADWATER_IO_PROFILE", value_hint = ValueHint::FilePath,
          help_heading = MPI_IO)]
    pub io_profile: Option<PathBuf>,

    /// Where --io reports at the end: stderr, none, or a file [default: stderr]
    #[arg(long, value_name = "WHERE", env = "HEADWATER_IO_REPORT", value_hint = ValueHint::FilePath,
          help_heading = MPI_IO)]
    pub io_report: Option<PathBuf>,
}

/// The same in `headwater exec`, without environment variables.
#[derive(Clone, Debug, Default, Args)]
pub struct InnerIoOptions {
    /// The mode of the I/O library.
    #[arg(long, value_enum)]
    pub io: Option<IoMode>,
    /// An absolute path.
    #[arg(long, requires = "io")]
    pub io_profile: Option<PathBuf>,
    /// A keyword, or an absolute path.
    #[arg(long, requires = "io")]
    pub io_report: Option<PathBuf>,
    /// All ranks of the program have the I/O library.
    #[arg(long, requires = "io")]
    pub io_everywhere: bool,
}

/// The mode of the I/O library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoMode {
    /// I/O is made parallel where that is faster.
    Auto,
    /// The same, and results are compared.
    Verify,
    /// I/O is only observed.
    Observe,
    /// I/O is unchanged.
    Off,
}

/// Keywords in place of a report's path.
const REPORT_KEYWORDS: [&str; 2] = ["stderr", "none"];

impl IoMode {
    /// Returns its name in `--io`.
    pub fn name(self) -> &'static str {
        match self {
            IoMode::Auto => "auto",
            IoMode::Verify => "verify",
            IoMode::Observe => "observe",
            IoMode::Off => "off",
        }
    }
}

impl IoOptions {
    /// Returns whether the I/O library is to be loaded.
    pub fn is_wanted(&self) -> bool {
        self.io.is_some_and(|mode| mode != IoMode::Off)
    }

    /// Returns these options with absolute paths, as the nodes see them.
    pub fn absolute(&self, cwd: &Path, on_nodes: &dyn Fn(&Path) -> PathBuf) -> IoOptions {
        let absolute = |path: &PathBuf| on_nodes(&cwd.join(path));
        let is_keyword = |path: &PathBuf| REPORT_KEYWORDS.iter().any(|word| path.as_os_str() == *word);
        IoOptions {
            io: self.io,
            io_profile: self.io_profile.as_ref().map(absolute),
            io_report: self.io_report.as_ref().map(|path| if is_keyword(path) { path.clone() } else { absolute(path) }),
        }
    }

    /// Returns these options as arguments of `headwater exec`.
    pub fn arguments(&self, is_everywhere: bool) -> Vec<OsString> {
        let Some(mode) = self.io else { return Vec::new() };
        let mut arguments: Vec<OsString> = vec!["--io".into(), mode.name().into()];
        if mode == IoMode::Off {
            return arguments;
        }
        for (option, path) in [("--io-profile", &self.io_profile), ("--io-report", &self.io_report)] {
            arguments.extend(path.iter().flat_map(|path| [OsString::from(option), path.into()]));
        }
        arguments.extend(is_everywhere.then(|| "--io-everywhere".into()));
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(io: Option<IoMode>, profile: Option<&str>, report: Option<&str>, is_everywhere: bool) -> String {
        let options = IoOptions { io, io_profile: profile.map(PathBuf::from), io_report: report.map(PathBuf::from) };
        let options =
            options.absolute(Path::new("/here"), &|path| Path::new("/n").join(path.strip_prefix("/").unwrap()));
        let arguments = options.arguments(is_everywhere);
        arguments.iter().map(|argument| argument.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn paths_are_the_nodes_and_keywords_stay() {
        use IoMode::{Auto, Off, Verify};
        assert_eq!(arguments(None, Some("p"), None, true), "");
        assert_eq!(arguments(Some(Off), Some("p"), None, true), "--io off");
        assert_eq!(arguments(Some(Auto), None, Some("none"), false), "--io auto --io-report none");
        let all = "--io verify --io-profile /n/here/p --io-report /n/r --io-everywhere";
        assert_eq!(arguments(Some(Verify), Some("p"), Some("/r"), true), all);
    }
}
