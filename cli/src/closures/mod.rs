//! Closures that runs leave behind, so that the next run of the same program fetches what it needs before anybody asks.

mod directory;
mod key;
pub mod options;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use headwater_closure::scope::Scope;
use headwater_daemon::{Preload, PreloadList};

pub use self::directory::{Closure, default_directory, list, remove, title_of};
use crate::options::run::ServiceOptions;
use crate::preload::{self, PreloadOption};

/// What is learnt of a program, and what was.
pub struct Learning {
    directory: PathBuf,
    /// The name of the file.
    name: String,
    /// The command, for people.
    title: String,
    /// What an earlier run has left.
    earlier: Option<Vec<String>>,
}

impl Learning {
    /// Returns what is known of a program, `command`, whose file is `program`. `None` if the user has chosen what to
    /// preload, or has no directory for closures.
    pub fn of(options: &ServiceOptions, command: &[OsString], program: &Path, scope: &Scope) -> Option<Learning> {
        if options.served.preload() != PreloadOption::Auto {
            return None;
        }
        let directory = options.closures.clone().or_else(default_directory)?;
        let key = key::of(command, program, scope, options.served.kinds());
        let earlier = preload::read(&directory.join(&key.name), Path::new("/")).ok();
        Some(Learning { directory, name: key.name, title: key.title, earlier })
    }

    /// Returns what to fetch by what was learnt; `None` if that is nothing.
    pub fn preload(&self) -> Option<Preload> {
        let entries = self.earlier.clone().filter(|entries| !entries.is_empty())?;
        let name = format!("an earlier run ({})", self.name);
        Some(Preload::List(PreloadList { name, entries, is_learnt: true, is_complete: false }))
    }

    /// Keeps what a run used, as lines of a closure, if it is not what is kept already.
    pub fn keep(&self, recorded: &[String]) {
        if recorded.is_empty() {
            return;
        }
        let earlier: HashSet<&String> = self.earlier.iter().flatten().collect();
        // Without room, the next run is as this one was.
        let _ = if recorded.len() == earlier.len() && recorded.iter().all(|line| earlier.contains(line)) {
            directory::note_use(&self.directory, &self.name)
        } else {
            directory::write(&self.directory, &self.name, &directory::text(&self.title, recorded))
        };
    }
}
