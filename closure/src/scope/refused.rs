//! A directory that was found and not taken.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A directory that was found and not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The directory.
    pub path: PathBuf,
    /// Why it was considered.
    pub reason: String,
    /// Why it was not taken.
    pub cause: Cause,
}

/// Why a directory is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The user names it, and it is no directory that can be reached; with the next step.
    Unusable(String),
    /// The user excludes it.
    Excluded,
    /// Other nodes don't share it.
    Local,
    /// There are as many as there may be.
    TooMany(usize),
    /// What it is or contains, that is taken only by name.
    Protected(String),
}

impl Cause {
    /// Returns why a path that the user names is no usable directory.
    pub(super) fn of_named(path: &Path) -> Cause {
        let near = path.parent().filter(|parent| parent.parent().is_some());
        Cause::Unusable(match path.metadata() {
            Ok(it) if it.is_dir() => "it can't be reached; check its file system".into(),
            Ok(_) => match near {
                Some(directory) => format!("it is not a directory; name {}, which contains it", directory.display()),
                None => "it is not a directory; name one".into(),
            },
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                "there is no such directory; name one that exists".into()
            }
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                "this user may not search the directories above it; name another one".into()
            }
            Err(e) => format!("it can't be reached ({e}); check its file system"),
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Unusable(why) => f.write_str(why),
            Cause::Excluded => f.write_str("it is excluded"),
            Cause::Local => f.write_str("it is on a local file system"),
            Cause::TooMany(most) => write!(f, "there are {most} already"),
            Cause::Protected(what) => write!(f, "it is {what}"),
        }
    }
}
