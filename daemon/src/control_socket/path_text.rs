//! Paths in JSON: text if they are UTF-8, otherwise bytes.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A path, as text if it is UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathText {
    /// UTF-8.
    Text(String),
    /// Other bytes.
    Bytes(Vec<u8>),
}

impl From<&Path> for PathText {
    fn from(path: &Path) -> PathText {
        PathText::from(path.as_os_str().as_bytes())
    }
}

impl From<&[u8]> for PathText {
    fn from(path: &[u8]) -> PathText {
        match str::from_utf8(path) {
            Ok(text) => PathText::Text(text.to_owned()),
            Err(_) => PathText::Bytes(path.to_vec()),
        }
    }
}

impl PathText {
    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            PathText::Text(text) => text.as_bytes(),
            PathText::Bytes(bytes) => bytes,
        }
    }

    /// The path.
    pub fn to_path(&self) -> PathBuf {
        std::ffi::OsString::from_vec(self.as_bytes().to_vec()).into()
    }
}

impl Default for PathText {
    fn default() -> PathText {
        PathText::Text(String::new())
    }
}
