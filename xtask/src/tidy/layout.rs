//! Where files are, and whether the documents describe it correctly.

use std::collections::{BTreeMap, BTreeSet};

const FOLDER_FILES_MAX: usize = 20;
/// Folders whose files are data: their number is not limited.
const DATA_FOLDERS: &[&str] = &["fuzz/seeds", "launch/tests/environments", "proto/tests/transcripts"];
/// Crates that have no I/O, no clock and no `unsafe`, which the compiler proves.
const PURE_CRATES: &[&str] = &["abi", "proto", "topology"];

/// Complaints about the folders of these files (paths from the root).
pub fn folders(paths: &[String]) -> Vec<String> {
    let mut files = BTreeMap::<&str, usize>::new();
    for path in paths {
        *files.entry(path.rsplit_once('/').map_or("", |(folder, _)| folder)).or_default() += 1;
    }
    let data = |folder: &str| DATA_FOLDERS.iter().any(|data| folder.starts_with(data));
    files
        .iter()
        .filter(|&(folder, &count)| count > FOLDER_FILES_MAX && !data(folder))
        .map(|(folder, count)| format!("{folder}/: {count} files (at most {FOLDER_FILES_MAX})"))
        .collect()
}

/// Complaints about ARCHITECTURE.md: every folder is mentioned, every path mentioned exists.
pub fn architecture(text: &str, paths: &[String]) -> Vec<String> {
    let mut folders = BTreeSet::new();
    let mut known = BTreeSet::new();
    for path in paths {
        known.insert(path.as_str());
        for (at, _) in path.match_indices('/') {
            known.insert(&path[..at]);
        }
        if let Some((top, rest)) = path.split_once('/').filter(|(top, _)| !top.starts_with('.')) {
            folders.insert(top.to_owned());
            if let Some((second, _)) = rest.split_once('/').filter(|_| top == "shim") {
                folders.insert(format!("{top}/{second}"));
            }
        }
    }
    let mut complaints: Vec<String> = folders
        .iter()
        .filter(|folder| !text.contains(&format!("`{folder}/")))
        .map(|folder| format!("ARCHITECTURE.md: does not describe `{folder}/`"))
        .collect();
    for name in text.split('`').skip(1).step_by(2).filter(|name| !name.contains([' ', '*', '{', '\n', '<'])) {
        let ours = name.split_once('/').is_some_and(|(top, _)| folders.contains(top));
        if ours && !known.contains(name.trim_end_matches('/')) {
            complaints.push(format!("ARCHITECTURE.md: `{name}` does not exist"));
        }
    }
    complaints
}

/// Complaints about crates that must be pure; `read` returns a file's text.
pub fn purity(read: impl Fn(&str) -> String) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in PURE_CRATES {
        let (library, manifest) = (format!("{name}/src/lib.rs"), format!("{name}/Cargo.toml"));
        let text = read(&library);
        if !text.lines().any(|line| line.starts_with("#![") && line.contains("no_std")) {
            complaints.push(format!("{library}: must be #![no_std]"));
        }
        if !read(&manifest).contains("unsafe_code = \"forbid\"") && !text.contains("#![forbid(unsafe_code)]") {
            complaints.push(format!("{manifest}: must forbid unsafe_code"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn crowded_folders() {
        let mut many: Vec<String> = (0..21).map(|n| format!("cli/src/{n}.rs")).collect();
        assert_eq!(folders(&many), ["cli/src/: 21 files (at most 20)"]);
        many.pop();
        assert!(folders(&many).is_empty());
    }

    #[test]
    fn architecture_is_complete_and_true() {
        let paths = paths(&["abi/src/lib.rs", "shim/audit/audit.c", ".ci/run", "README.md"]);
        let text = "`abi/` and `abi/src/lib.rs`; `shim/`: `shim/audit/`; `SESSION/nK/` is elsewhere";
        assert!(architecture(text, &paths).is_empty());
        assert_eq!(
            architecture(&text.replace("`shim/audit/`", ""), &paths),
            ["ARCHITECTURE.md: does not describe `shim/audit/`"]
        );
        assert_eq!(
            architecture(&text.replace("lib.rs", "gone.rs"), &paths),
            ["ARCHITECTURE.md: `abi/src/gone.rs` does not exist"]
        );
    }

    #[test]
    fn pure_crates() {
        let good = |path: &str| if path.ends_with("rs") { "#![no_std]" } else { "unsafe_code = \"forbid\"" }.to_owned();
        assert!(purity(good).is_empty());
        assert_eq!(purity(|_| String::new()).len(), 2 * PURE_CRATES.len());
    }
}
