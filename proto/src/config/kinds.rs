//! Kinds of files, of which a session may serve some.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use headwater_abi::{Attr, Path};
use serde::{Deserialize, Serialize};
use thiserror::Error;

bitflags::bitflags! {
    /// Kinds of files. A file is of one kind, by its name, else by its mode.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct Kinds: u8 {
        /// Names that end in `.so`, or contain `.so.`.
        const LIBRARIES = 1;
        /// Names that end in `.py`, `.pyc` or `.pth`.
        const PYTHON = 2;
        /// Other files that their owner, their group or others may execute.
        const EXECUTABLES = 4;
        /// All others.
        const DATA = 8;
    }
}

/// The names in a list, beside `none`.
const NAMES: [(&str, Kinds); 4] = [
    ("libraries", Kinds::LIBRARIES),
    ("python", Kinds::PYTHON),
    ("executables", Kinds::EXECUTABLES),
    ("data", Kinds::DATA),
];
const NONE: &str = "none";
/// Endings of Python's files.
const PYTHON_ENDINGS: [&[u8]; 3] = [b".py", b".pyc", b".pth"];
/// Bits of a mode: the owner, the group or others may execute.
const EXECUTE: u32 = 0o111;

/// A text is not a list of kinds.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("write none, or some of libraries, python, executables, data, separated by commas or +")]
pub struct NotKinds;

/// The content that a node stores. Processes read all other from the source files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Of these kinds of files.
    pub kinds: Kinds,
    /// Bytes of the largest file.
    pub file_bytes_max: u64,
}

impl Stored {
    /// All content.
    pub const ALL: Stored = Stored { kinds: Kinds::all(), file_bytes_max: u64::MAX };

    /// Returns whether content of the file with these attributes is stored.
    pub fn includes(&self, path: &Path, attr: &Attr) -> bool {
        attr.size <= self.file_bytes_max && self.kinds.include(path.name(), attr.mode)
    }

    /// Returns whether content of files of this name is stored whatever their mode, unless it is too large.
    pub(crate) fn includes_by_name(&self, path: &Path) -> bool {
        self.kinds.contains(kind_by_name(path.name()).unwrap_or(Kinds::EXECUTABLES | Kinds::DATA))
    }
}

impl Kinds {
    /// Returns whether a file of this name and mode is of these kinds.
    pub fn include(self, name: &[u8], mode: u32) -> bool {
        self.contains(kind_by_name(name).unwrap_or(kind_by_mode(mode)))
    }
}

fn kind_by_name(name: &[u8]) -> Option<Kinds> {
    if name.ends_with(b".so") || name.windows(4).any(|part| part == b".so.") {
        return Some(Kinds::LIBRARIES);
    }
    PYTHON_ENDINGS.iter().any(|ending| name.ends_with(ending)).then_some(Kinds::PYTHON)
}

fn kind_by_mode(mode: u32) -> Kinds {
    if mode & EXECUTE != 0 { Kinds::EXECUTABLES } else { Kinds::DATA }
}

impl Default for Kinds {
    fn default() -> Kinds {
        Kinds::all()
    }
}

impl FromStr for Kinds {
    type Err = NotKinds;

    fn from_str(text: &str) -> Result<Kinds, NotKinds> {
        if text == NONE {
            return Ok(Kinds::empty());
        }
        let kind = |name: &str| NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind).ok_or(NotKinds);
        text.split([',', '+']).map(kind).collect()
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (name, _) in NAMES.iter().filter(|(_, kind)| self.contains(*kind)) {
            text += if text.is_empty() { "" } else { "," };
            text += name;
        }
        f.write_str(if text.is_empty() { NONE } else { &text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_file_has_one_kind() {
        for (name, mode, expected) in [
            ("libm.so", 0o644, Kinds::LIBRARIES),
            ("libm.so.6", 0o755, Kinds::LIBRARIES),
            ("_ssl.cpython-311-x86_64-linux-gnu.so", 0o644, Kinds::LIBRARIES),
            ("a.py", 0o755, Kinds::PYTHON),
            ("a.cpython-311.pyc", 0o644, Kinds::PYTHON),
            ("site.pth", 0o644, Kinds::PYTHON),
            ("app", 0o711, Kinds::EXECUTABLES),
            ("tool", 0o654, Kinds::EXECUTABLES),
            ("weights", 0o644, Kinds::DATA),
            ("a.sock", 0o644, Kinds::DATA),
            ("a.pyx", 0o644, Kinds::DATA),
        ] {
            let path = Path::new(&[b"/sw.so/", name.as_bytes()].concat()).unwrap();
            let attr = Attr { mode: 0o100_000 | mode, size: 10, ..Attr::default() };
            for kinds in [Kinds::empty(), expected, expected.complement(), Kinds::all()] {
                let stored = Stored { kinds, file_bytes_max: 10 };
                assert_eq!(stored.includes(&path, &attr), kinds.contains(expected), "{name} {kinds}");
                assert!(stored.includes(&path, &attr) || !stored.includes_by_name(&path), "{name} {kinds}");
                assert!(!stored.includes(&path, &Attr { size: 11, ..attr }));
            }
        }
    }

    #[test]
    fn lists() {
        for text in ["none", "libraries", "libraries,python", "libraries,python,executables,data"] {
            assert_eq!(text.parse::<Kinds>().unwrap().to_string(), text);
        }
        assert_eq!("data+python".parse(), Ok(Kinds::DATA | Kinds::PYTHON));
        for text in ["", "all", "none,data", "python, data", "library"] {
            assert_eq!(text.parse::<Kinds>(), Err(NotKinds), "{text}");
        }
    }
}
