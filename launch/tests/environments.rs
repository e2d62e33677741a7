//! Environments of real launchers: `environments/*.txt`.
//!
//! A file begins with a comment: the command that was run, and whether the variables were recorded or written
//! from documentation. The expected information is above the line `--`, the variables below.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use headwater_launch::info::LaunchInfo;

/// Returns the information as lines `FACT VALUE`, without the facts that are unknown.
fn show(info: Option<&LaunchInfo>) -> String {
    let Some(info) = info else { return "no launch\n".into() };
    let LaunchInfo { launcher, rank, size, local_rank, local_size, node, nodes } = info;
    let mut facts = vec![("launcher", Some(launcher.to_string()))];
    let numbers = [("rank", rank), ("size", size), ("local rank", local_rank), ("local size", local_size)];
    facts.extend(numbers.map(|(name, number)| (name, number.map(|n| n.to_string()))));
    facts.extend([("node", node), ("nodes", nodes)].map(|(name, number)| (name, number.map(|n| n.to_string()))));
    facts.into_iter().filter_map(|(name, value)| value.map(|value| format!("{name}: {value}\n"))).collect()
}

fn check(file: &Path) {
    let text = fs::read_to_string(file).unwrap();
    let (head, variables) = text.split_once("--\n").unwrap_or_else(|| panic!("{}: no line `--`", file.display()));
    let expected: String = head.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect();
    let comment = head.starts_with("# ") && (head.contains("Recorded") || head.contains("Written from"));
    assert!(comment, "{}: the comment has neither `Recorded` nor `Written from`", file.display());
    let variables: BTreeMap<&str, &str> = variables.lines().filter_map(|line| line.split_once('=')).collect();
    let info = LaunchInfo::of(&|name| variables.get(name).map(OsString::from));
    assert_eq!(show(info.as_ref()), expected, "{}", file.display());
}

#[test]
fn environments() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/environments");
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 15, "{files:?}");
    files.iter().for_each(|file| check(file));
}
