//! Which notes reach the user.

use std::env;
use std::io::{IsTerminal, stderr};

use headwater_launch::info::LaunchInfo;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::launch::SESSION;
use crate::message::log;
use crate::options::run::RunOptions;
use crate::via::Via;

/// What is known of the readers of standard error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Audience {
    /// The user wants no notes.
    pub is_quiet: bool,
    /// Each step is reported anyway.
    pub is_verbose: bool,
    /// Standard error is a terminal.
    pub is_terminal: bool,
    /// Another process group has the terminal.
    pub is_in_background: bool,
    /// A launcher or a session has started this process, so there may be others like it.
    pub is_one_of_many: bool,
    /// It is not the first of them.
    pub is_later_rank: bool,
}

impl Audience {
    /// Returns the readers of this process's standard error.
    pub fn here(options: &RunOptions) -> Audience {
        let info = LaunchInfo::of(&|name| env::var_os(name));
        Audience {
            is_quiet: options.quiet,
            is_verbose: options.service.verbose,
            is_terminal: stderr().is_terminal(),
            is_in_background: tcgetpgrp(stderr()).is_ok_and(|group| group != getpgrp()),
            is_one_of_many: info.is_some() || env::var_os(SESSION).is_some(),
            is_later_rank: info.and_then(|info| info.rank).is_some_and(|rank| rank > 0),
        }
    }

    /// Returns whether it reads why nothing is served: once for all ranks of a launch.
    pub fn reads_failures(self) -> bool {
        !self.is_quiet && !self.is_later_rank
    }

    /// Returns whether it reads notes about a run that is served: a person does, and a program's log does not.
    pub fn reads_hints(self) -> bool {
        self.is_terminal && !self.is_quiet && !self.is_one_of_many
    }

    /// Returns whether progress may be drawn.
    pub fn sees_progress(self) -> bool {
        self.reads_hints() && !self.is_verbose && !self.is_in_background
    }

    /// Reports why a program's files are not served, unless the user wants that, or I/O alone. A sealed run does not start
    /// then.
    pub fn report_off(self, options: &RunOptions, has_scope: bool, why: &str) {
        let is_wanted = options.service.via == Via::Off || options.io.is_wanted();
        if is_wanted || !self.reads_failures() || options.sealed.sealed.is_some() {
            return;
        }
        if has_scope {
            log(format_args!("not served: {why}. `headwater doctor` shows what this machine allows"));
        } else {
            log(format_args!("nothing to serve: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_logs_are_spared() {
        let person = Audience { is_terminal: true, ..Audience::default() };
        let log = Audience::default();
        let first = Audience { is_one_of_many: true, ..person };
        let later = Audience { is_later_rank: true, ..first };
        let quiet = Audience { is_quiet: true, ..person };
        let verbose = Audience { is_verbose: true, ..person };
        let behind = Audience { is_in_background: true, ..person };
        let of = |audience: Audience| (audience.reads_failures(), audience.reads_hints(), audience.sees_progress());
        assert_eq!(of(person), (true, true, true));
        assert_eq!([verbose, behind].map(of), [(true, true, false); 2]);
        assert_eq!(of(log), (true, false, false));
        assert_eq!(of(first), (true, false, false));
        assert_eq!([later, quiet].map(of), [(false, false, false); 2]);
    }
}
