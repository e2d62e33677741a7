//! Search paths in the linker's form.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Values of `$LIB` on different distributions.
const LIB: [&str; 4] = ["lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib"];
/// Returns the directories of an entry of a search path.
pub(crate) fn expand(entry: &[u8], origin: &Path) -> Vec<PathBuf> {
    let mut entries = vec![entry.to_vec()];
    let machine = rustix::system::uname();
    let machine = machine.machine().to_bytes();
    for (token, values) in [
        ("ORIGIN", vec![origin.as_os_str().as_bytes()]),
        ("LIB", LIB.iter().map(|l| l.as_bytes()).collect()),
        ("PLATFORM", vec![machine]),
    ] {
        for form in [format!("${{{token}}}"), format!("${token}")] {
            let replaced = |entry: &Vec<u8>| match find(entry, form.as_bytes()) {
                None => vec![entry.clone()],
                Some(at) => {
                    let rest = &entry[at + form.len()..];
                    values.iter().map(|value| [&entry[..at], value, rest].concat()).collect()
                }
            };
            entries = entries.iter().flat_map(replaced).collect();
        }
    }
    entries.retain(|e| !e.is_empty());
    entries.into_iter().map(|e| PathBuf::from(OsString::from_vec(e))).collect()
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len()).position(|w| w == pattern)
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
