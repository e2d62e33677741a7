//! Search paths in the linker's form, of a program that may be for another machine.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::libraries::{Loader, expand as expand_for};

/// Values of `$LIB` on different distributions.
const LIB: [&str; 4] = ["lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib"];

/// Returns the directories of an entry of a search path.
pub(crate) fn expand(entry: &[u8], origin: &Path) -> Vec<PathBuf> {
    let loaders = LIB.iter().map(|&lib| Loader { lib: lib.into(), ..Loader::usual() });
    let mut entries: Vec<_> = loaders.filter_map(|loader| expand_for(entry, origin, &loader)).collect();
    entries.dedup();
    entries.retain(|e| !e.is_empty());
    entries.into_iter().map(|e| PathBuf::from(OsString::from_vec(e))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let check = |entry: &str, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(expand(entry.as_bytes(), Path::new("/app/bin")), expected, "{entry}");
        };
        check("/opt/lib", &["/opt/lib"]);
        check("$ORIGIN/../lib", &["/app/bin/../lib"]);
        check("${ORIGIN}", &["/app/bin"]);
        check("/a/$LIB", &["/a/lib64", "/a/lib/x86_64-linux-gnu", "/a/lib/aarch64-linux-gnu", "/a/lib"]);
        check("", &[]);
        assert_eq!(expand(b"/a/$PLATFORM", Path::new("/")).len(), 1);
    }
}
