//! The variables of the environment that belong to Headwater: those of options, others that it reads, and those that it
//! sets for processes. A name that is none of them is reported, with the nearest one that is.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use clap::{Arg, Command};

use super::visible::visible_below;
use crate::message::log;

/// How the names of all variables begin.
pub const PREFIX: &str = "HEADWATER_";

/// A variable that is no option's.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Whether it is for Headwater's own libraries alone.
    pub is_inner: bool,
}

/// Variables that users set.
pub const READ: [Variable; 7] = [
    variable(
        "HEADWATER_CONFIG",
        "A file with defaults of options, in place of the user's `~/.config/headwater/headwater.toml`. If it is empty, no \
         such file is read, not even the site's.",
    ),
    variable("HEADWATER_LIBDIR", "The directory of Headwater's libraries, in place of the installed one."),
    variable(
        "HEADWATER_LOG",
        "What daemons log: a level such as `info`, or filters as of the crate tracing-subscriber.",
    ),
    variable(
        "HEADWATER_IO_MODEL",
        "`always`: `--io` transforms operations also where it expects no gain. For tests. `at-once`: no exchange of a \
         write is deferred. For benchmarks.",
    ),
    variable("HEADWATER_IO_BYTES_MIN", "The smallest operation that `--io` transforms, in bytes."),
    variable("HEADWATER_ZYGOTE_LIBRARY", "The path of `libheadwater-zygote.so`, for programs that use `libpspawn`."),
    variable("HEADWATER_BINARY", "The path of `headwater`, for the Flux plugin."),
];

/// Variables that Headwater sets for the processes that it starts.
pub const SET: [Variable; 12] = [
    variable("HEADWATER_NODE", "The number of the process's node, from 0."),
    variable("HEADWATER_NODES", "The number of nodes."),
    variable("HEADWATER_RANK", "The number of the process, from 0."),
    variable("HEADWATER_RANKS", "The number of processes."),
    variable("HEADWATER_SESSION", "The name of the session."),
    inner("HEADWATER_TOOL_NODE", "The node's number, for the node agent that a tool starts."),
    inner("HEADWATER_TOOL_NODES", "The number of nodes, for the node agent that a tool starts."),
    inner("HEADWATER_TABLE", "The node's table, for the audit library."),
    inner("HEADWATER_MOUNT", "The node's mount, with `--via mount`."),
    inner("HEADWATER_IO_EVERYWHERE", "Whether all ranks have the I/O library."),
    inner("HEADWATER_ZYGOTE_SOCKET", "The descriptor by which a zygote takes requests."),
    inner("HEADWATER_ZYGOTE_IMPORTS", "The modules that a zygote imports."),
];

/// Beginnings of names that Headwater and its tests make as they need them.
const FAMILIES: [&str; 3] = [crate::launch::CARRIED, "HEADWATER_FINDING_", "HEADWATER_TEST_"];
/// Names that tests and benchmarks use.
const TESTS: [&str; 5] = ["HOSTILE_PEERS", "SEED", "STORM_INSIDE", "TRACE", "UPDATE_TRANSCRIPTS"];
/// Names that module files and package managers give to any package.
const PACKAGES: [&str; 10] = ["BASE", "BIN", "DIR", "HOME", "INC", "INCLUDE", "LIB", "PREFIX", "ROOT", "VERSION"];

const fn variable(name: &'static str, about: &'static str) -> Variable {
    Variable { name, about, is_inner: false }
}

const fn inner(name: &'static str, about: &'static str) -> Variable {
    Variable { name, about, is_inner: true }
}

/// Returns the variables of this command's options and of those of all commands below it, with the commands and the
/// option of each.
pub fn of_options(command: &Command) -> BTreeMap<String, (Vec<String>, Arg)> {
    let mut found = BTreeMap::new();
    collect(command, command.get_name(), &mut found);
    found
}

fn collect(command: &Command, name: &str, found: &mut BTreeMap<String, (Vec<String>, Arg)>) {
    for option in command.get_arguments() {
        if let Some(variable) = option.get_env().and_then(|variable| variable.to_str()) {
            let (commands, _) = found.entry(variable.to_owned()).or_insert_with(|| (Vec::new(), option.clone()));
            commands.push(name.to_owned());
        }
    }
    for below in visible_below(command) {
        collect(below, below.get_name(), found);
    }
}

/// Returns the definition, in which options with a value are not taken from variables that are empty.
pub fn without_empty(command: Command) -> Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let option = |option: Arg| match option.get_env() {
        Some(name) if option.get_action().takes_values() && is_empty(name) => option.env(None::<&'static str>),
        _ => option,
    };
    command.mut_args(option).mut_subcommands(without_empty)
}

/// Reports each unknown variable of the environment with Headwater's prefix.
pub fn check(command: &Command) {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let names: Vec<String> = names.filter(|name| name.starts_with(PREFIX)).collect();
    if names.is_empty() {
        return;
    }
    for complaint in complaints(&names, command) {
        log(format_args!("warning: {complaint}"));
    }
}

fn complaints(names: &[String], command: &Command) -> Vec<String> {
    let options = of_options(command);
    let others = READ.iter().chain(&SET).map(|variable| variable.name);
    let known: Vec<&str> = options.keys().map(String::as_str).chain(others).collect();
    let unknown = names.iter().filter(|name| !is_known(name, &known));
    let complaint = |name: &String| {
        let near = nearest(name, known.iter().copied()).map(|near| format!("; the nearest known one is {near}"));
        format!("the variable {name} is unknown{}", near.unwrap_or_default())
    };
    unknown.map(complaint).collect()
}

fn is_known(name: &str, known: &[&str]) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    known.contains(&name)
        || FAMILIES.iter().any(|family| name.starts_with(family))
        || TESTS.contains(&rest)
        || PACKAGES.contains(&rest)
}

/// Returns the name that is nearest to a misspelt one, unless none is near.
pub fn nearest<'a>(misspelt: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = misspelt.strip_prefix(PREFIX).unwrap_or(misspelt).len();
    let distance = |name: &str| strsim::osa_distance(misspelt, name);
    names.map(|name| (distance(name), name)).min().filter(|(distance, _)| 2 * distance <= length).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    use crate::options::CommandLine;

    fn complaint_about(name: &str) -> Option<String> {
        complaints(&[name.to_owned()], &CommandLine::command()).pop()
    }

    #[test]
    fn misspelt_names_are_reported_with_the_nearest() {
        for (misspelt, near) in [
            ("HEADWATER_SHRAED", Some("HEADWATER_SHARED")),
            ("HEADWATER_STOREMAX", Some("HEADWATER_STORE_MAX")),
            ("HEADWATER_SESION", Some("HEADWATER_SESSION")),
            ("HEADWATER_KEYS", Some("HEADWATER_KEY")),
            ("HEADWATER_ENTIRELY_DIFFERENT", None),
            ("HEADWATER_", None),
        ] {
            let complaint = complaint_about(misspelt).unwrap_or_else(|| panic!("{misspelt} is accepted"));
            let end = near.map(|near| format!("; the nearest known one is {near}")).unwrap_or("is unknown".into());
            assert!(complaint.ends_with(&end), "{complaint}");
        }
    }

    #[test]
    fn known_names_are_not() {
        for name in ["SHARED", "EXPORT", "LIBDIR", "TABLE", "CARRIED_LD_AUDIT", "TEST_SEED", "ROOT", "SEED"] {
            assert_eq!(complaint_about(&format!("{PREFIX}{name}")), None);
        }
    }

    /// Names in the sources' literals, of what is installed.
    #[test]
    fn all_names_in_the_sources_are_known() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folders = ["cli/src", "daemon/src", "supervisor/src", "launch/src", "integrations", "shim", "spawn", "abi"];
        let mut pending: Vec<_> = folders.iter().map(|folder| root.join(folder)).filter(|path| path.exists()).collect();
        let mut found = std::collections::BTreeSet::new();
        while let Some(path) = pending.pop() {
            if path.is_dir() {
                let entries = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
                pending.extend(entries.filter(|entry| !entry.ends_with("tests")));
            } else if !path.ends_with("help/variables.rs") {
                let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
                let parts = text.split("\"HEADWATER_").skip(1);
                let is_part = |c: char| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit();
                let names = parts.map(|part| part.split(|c| !is_part(c)).next().unwrap_or_default().to_owned());
                found.extend(names.filter(|name| !name.is_empty()));
            }
        }
        assert!(found.contains("TABLE") && found.contains("SHARED"), "{found:?}");
        // The beginning of a family.
        let names = found.iter().filter(|name| *name != "CARRIED");
        let unknown: Vec<String> = names.filter_map(|name| complaint_about(&format!("{PREFIX}{name}"))).collect();
        assert!(unknown.is_empty(), "{unknown:#?}");
    }
}
