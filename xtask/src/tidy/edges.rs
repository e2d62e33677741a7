//! Which crate may depend on which: dependencies point in one direction.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell::Shell;

/// Each crate with all that it may depend on. Crates that are not listed may use every other.
const ALLOWED: &[(&str, &[&str])] = &[
    ("headwater-abi", &[]),
    ("headwater-topology", &[]),
    ("headwater-proto", &["headwater-abi", "headwater-topology"]),
    ("headwater-closure", &["headwater-abi"]),
    ("headwater-sim", &["headwater-abi", "headwater-topology", "headwater-proto"]),
    ("headwater-model", &["headwater-abi", "headwater-topology", "headwater-proto"]),
    ("headwater-fuse", &["headwater-abi"]),
    ("headwater-store", &["headwater-abi", "headwater-proto"]),
    ("headwater-cache", &["headwater-abi", "headwater-store"]),
    ("headwater-reader", &["headwater-abi", "headwater-cache", "headwater-closure", "headwater-store"]),
    ("headwater-overlay", &["headwater-abi", "headwater-proto", "headwater-store"]),
    ("headwater-mount", &["headwater-abi", "headwater-fuse", "headwater-proto", "headwater-store"]),
    (
        "headwater-daemon",
        &[
            "headwater-abi",
            "headwater-topology",
            "headwater-proto",
            "headwater-cache",
            "headwater-closure",
            "headwater-fuse",
            "headwater-store",
            "headwater-reader",
            "headwater-overlay",
            "headwater-mount",
            "headwater-report",
        ],
    ),
    (
        "headwater-supervisor",
        &["headwater-abi", "headwater-fuse", "headwater-store", "headwater-mount", "headwater-daemon"],
    ),
    ("headwater-launch", &[]),
    ("headwater-cluster", &[]),
    ("headwater-figures", &[]),
    ("headwater-report", &["headwater-figures"]),
    ("headwater-tracer", &["headwater-closure"]),
    ("xtask", &["headwater-cluster", "headwater-figures"]),
    (
        "headwater",
        &[
            "headwater-abi",
            "headwater-topology",
            "headwater-proto",
            "headwater-cache",
            "headwater-closure",
            "headwater-figures",
            "headwater-fuse",
            "headwater-launch",
            "headwater-model",
            "headwater-report",
            "headwater-store",
            "headwater-overlay",
            "headwater-daemon",
            "headwater-supervisor",
            "headwater-tracer",
        ],
    ),
];
/// Crates on which nothing may depend.
const LEAVES: &[&str] = &["headwater-tests", "xtask"];

/// Complaints about the edges between the workspace's crates.
pub fn check(shell: &Shell) -> Result<Vec<String>> {
    let output = shell.run(&mut shell.cargo(&["metadata", "--no-deps", "--format-version=1", "--quiet"]))?;
    let start = output.find('{').context("`cargo metadata` printed no JSON")?;
    complaints(&serde_json::from_str(&output[start..])?)
}

fn complaints(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"].as_array().context("no packages in `cargo metadata`")?;
    let names: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let mut complaints = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package has a name")?;
        let allowed = ALLOWED.iter().find(|(n, _)| *n == name).map(|(_, allowed)| *allowed);
        for dependency in package["dependencies"].as_array().context("no dependencies in `cargo metadata`")? {
            let to = dependency["name"].as_str().context("a dependency has a name")?;
            // A crate's tests may use crates that are built on it.
            let is_of_tests = dependency["kind"] == "dev";
            let forbidden = LEAVES.contains(&to) || (!is_of_tests && allowed.is_some_and(|a| !a.contains(&to)));
            if names.contains(&to) && to != name && forbidden {
                complaints.push(format!("crate {name} may not depend on {to}: dependencies point in one direction"));
            }
        }
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(from: &str, to: &str, complains: bool) {
        let metadata = json!({"packages": [
            {"name": from, "dependencies": [{"name": to}, {"name": "serde"}]},
            {"name": to, "dependencies": []},
        ]});
        assert_eq!(!complaints(&metadata).unwrap().is_empty(), complains, "{from} -> {to}");
    }

    #[test]
    fn edges() {
        check("headwater-proto", "headwater-abi", false);
        check("headwater-proto", "headwater-topology", false);
        check("headwater-topology", "headwater-proto", true);
        check("headwater", "headwater-launch", false);
        check("headwater-launch", "headwater-topology", true);
        check("headwater-launch", "headwater-daemon", true);
        check("headwater-abi", "headwater-proto", true);
        check("headwater-proto", "headwater-daemon", true);
        check("headwater-sim", "headwater-daemon", true);
        check("headwater-mount", "headwater-daemon", true);
        check("headwater-supervisor", "headwater-daemon", false);
        check("headwater", "headwater-daemon", false);
        check("headwater-tests", "headwater", false);
        check("headwater-daemon", "xtask", true);
        check("headwater-tests", "headwater-cluster", false);
        check("xtask", "headwater-cluster", false);
        check("xtask", "headwater-daemon", true);
    }
}
