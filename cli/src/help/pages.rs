//! Further content of a command's page: its document, its files, and related commands.

use std::path::Path;

use crate::self_exec;

/// Where the documents are installed, from the directory of `bin`.
pub const INSTALLED: &str = "share/doc/headwater";
/// The page of what has no page of its own.
pub const REFERENCE: &str = "docs/reference/command-line.md";

/// What belongs to a command.
#[derive(Debug)]
pub struct Page {
    /// Its name.
    command: &'static str,
    /// Its page, from the root of the documents.
    pub document: &'static str,
    /// Files that it reads or makes, and what they are.
    pub files: &'static [(&'static str, &'static str)],
    /// Related commands.
    pub related: &'static [&'static str],
}

const SESSION: &[(&str, &str)] = &[
    ("/etc/headwater/headwater.toml", "The site's defaults of options. See headwater-config(1)."),
    ("~/.config/headwater/headwater.toml", "The user's defaults of options."),
    ("/dev/shm/headwater-UID/", "The user's sessions on this node: sockets, tables, stores. See --store."),
    ("~/.headwater/", "A file for each session that spans nodes. See --job-dir."),
    ("PREFIX/lib/libheadwater-audit.so", "The library that LD_AUDIT loads into programs."),
];
const CONFIG: &[(&str, &str)] = &[
    (
        "/etc/headwater/headwater.toml",
        "The site's defaults of options. It must be root's, and no other user may write it.",
    ),
    ("~/.config/headwater/headwater.toml", "The user's defaults of options. XDG_CONFIG_HOME moves it."),
];
const LOCAL: &[(&str, &str)] =
    &[("/dev/shm/headwater-UID/", "The user's sessions on this node: sockets, tables, stores. See --store.")];
const SITE: &[(&str, &str)] = &[
    ("/etc/headwater/key", "The site's key."),
    ("PREFIX/lib/systemd/system/headwater-serve.service", "The unit of the readers."),
    ("PREFIX/lib/systemd/system/headwater-join.service", "The unit of all other nodes."),
];
const METRICS: &[(&str, &str)] = &[
    ("PREFIX/lib/systemd/system/headwater-metrics.service", "The unit that serves them."),
    ("PREFIX/share/headwater/grafana/headwater.json", "A dashboard for Grafana."),
];
const GUARD: &[(&str, &str)] = &[
    ("PREFIX/lib/systemd/system/headwater-guard.service", "The unit that runs it on each node."),
    ("/etc/headwater/guard.conf", "Variables of its options, for the unit."),
];
const MOUNT: &[(&str, &str)] = &[
    ("/dev/shm/headwater-UID/", "The user's sessions on this node: sockets and stores. See --store."),
    ("/etc/fuse.conf", "Its line user_allow_other lets ordinary users give --allow-other."),
];
const CLOSURES: &[(&str, &str)] =
    &[("~/.cache/headwater/closures/", "What runs have left: a file for each program. See --closures.")];
const SEALS: &[(&str, &str)] = &[
    ("~/.config/headwater/seal.key", "The user's private key."),
    ("~/.config/headwater/signers", "Public keys of others whose seals are accepted."),
];
const MODELS: &[(&str, &str)] =
    &[("PREFIX/share/doc/headwater/docs/internals/simulation.md", "The keys of the TOML files.")];

const PAGES: &[Page] = &[
    page("run", "docs/guide/first-start.md", SESSION, &["start", "record", "doctor", "stats"]),
    page("spawn", "docs/guide/spawning.md", &[], &["run"]),
    page("start", "docs/guide/launchers.md", SESSION, &["stop", "run"]),
    page("stop", "docs/guide/launchers.md", SESSION, &["start"]),
    page("record", "docs/guide/launchers.md", SESSION, &["run"]),
    page("explain", "docs/guide/explain.md", &[], &["record", "simulate", "run"]),
    page("seal", "docs/guide/seals.md", SEALS, &["record", "run", "closures"]),
    page("closures", "docs/internals/closure.md", CLOSURES, &["run", "record"]),
    page("mount", "docs/guide/first-start.md", MOUNT, &["unmount", "stats", "refresh"]),
    page("unmount", "docs/guide/first-start.md", MOUNT, &["mount", "join"]),
    page("serve", "docs/operate/site-export.md", SITE, &["join", "key", "refresh"]),
    page("join", "docs/operate/site-export.md", SITE, &["serve", "key", "refresh", "unmount"]),
    page("key", "docs/operate/site-export.md", SITE, &["serve", "join"]),
    page("doctor", "docs/guide/troubleshooting.md", LOCAL, &["run", "stats"]),
    page("sweep", "docs/operate/install.md", LOCAL, &["doctor"]),
    page("config", "docs/operate/defaults.md", CONFIG, &["run", "start"]),
    page("stats", "docs/operate/monitoring.md", LOCAL, &["doctor", "clear"]),
    page("metrics", "docs/operate/monitoring.md", METRICS, &["stats", "join", "serve"]),
    page("guard", "docs/operate/guard.md", GUARD, &["run", "metrics", "join"]),
    page("clear", "docs/operate/monitoring.md", LOCAL, &["refresh", "stats"]),
    page("refresh", "docs/operate/site-export.md", LOCAL, &["clear", "join"]),
    page("topology", "docs/internals/topology.md", &[], &["plan", "run"]),
    page("simulate", "docs/internals/simulation.md", MODELS, &["plan", "topology"]),
    page("plan", "docs/internals/simulation.md", MODELS, &["simulate", "topology"]),
    page("io", "docs/guide/mpi-io.md", &[], &["run"]),
    page("predict", "docs/guide/mpi-io.md", &[], &["run"]),
    page("report", "docs/guide/mpi-io.md", &[], &["run"]),
];

const fn page(
    command: &'static str,
    document: &'static str,
    files: &'static [(&'static str, &'static str)],
    related: &'static [&'static str],
) -> Page {
    Page { command, document, files, related }
}

/// Returns what belongs to the command of this name, if anything does.
pub fn of(command: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.command == command)
}

/// Returns a document's place: where it is installed beside this executable, else its path in the source tree.
pub fn place(document: &str) -> String {
    let executable = self_exec::installed().unwrap_or_default();
    let installed = executable.parent().and_then(Path::parent).map(|prefix| prefix.join(INSTALLED).join(document));
    installed.filter(|path| path.is_file()).map_or_else(|| document.to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_command_has_its_page_and_each_page_a_command() {
        let command = crate::options::CommandLine::command();
        let without = ["help", "version"];
        for below in super::super::visible::visible_below(&command).filter(|below| !without.contains(&below.get_name()))
        {
            let page = of(below.get_name()).unwrap_or_else(|| panic!("{} has no page", below.get_name()));
            assert!(page.related.iter().all(|name| command.find_subcommand(name).is_some()), "{page:?}");
        }
        let io = command.find_subcommand("io").unwrap();
        let is_command = |name| command.find_subcommand(name).or(io.find_subcommand(name)).is_some();
        assert!(PAGES.iter().all(|page| is_command(page.command)));
    }
}
