//! `cargo xtask cluster`: nodes on this machine, that stay until they are taken down.

mod exec;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use headwater_cluster::{Delay, Options, RAM_DISKS, Rate, Registry, Running};
use headwater_figures::text::columns;

/// Nodes on this machine: namespaces with names, addresses and RAM disks of their own (as root).
#[derive(Args)]
pub struct Arguments {
    /// Which cluster, where there are several.
    #[arg(long, global = true, default_value = "default")]
    name: String,
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Make nodes, node001 and so on. They see the file system of this machine but for the RAM disks.
    Up {
        /// How many.
        nodes: usize,
        /// The rate of each link in each direction, as 200mbit.
        #[arg(long)]
        rate: Option<Rate>,
        /// How long packets take from node to node, as 1ms.
        #[arg(long)]
        delay: Option<Delay>,
        /// How many interfaces each has: eth0, eth1 and so on, each with a link of its own.
        #[arg(long, default_value_t = 1)]
        interfaces: usize,
        /// A directory in /tmp or on another RAM disk that all nodes see; repeatable.
        #[arg(long, value_name = "DIRECTORY")]
        share: Vec<PathBuf>,
        /// The size of each RAM disk.
        #[arg(long, default_value_t = 1024, value_name = "MIB")]
        ram_disk_mib: u32,
    },
    /// End all that runs on the nodes, and the nodes.
    Down,
    /// Run a command on one node, or on all at once with each line after its node's name.
    Exec {
        /// Its number or name, or `all`.
        node: String,
        /// The command, with its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Show which clusters are up.
    List,
}

/// Executes the command line. The status is that of the command that was executed, if one was.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let name = arguments.name.as_str();
    match &arguments.command {
        Task::Up { nodes, rate, delay, interfaces, share, ram_disk_mib } => {
            let (rate, delay, interfaces, ram_disk_mib) = (*rate, *delay, *interfaces, *ram_disk_mib);
            let options = Options { rate, delay, interfaces, ram_disk_mib, shares: share.clone() };
            let running = Registry::open()?.up(name, *nodes, &options)?;
            println!("Cluster `{name}` is up: {}, with their own {}.", running.node_names(), RAM_DISKS.join(", "));
            println!("Try: cargo xtask cluster exec{} 1 -- getent hosts node001", option(name));
        }
        Task::Down => {
            let was_up = Registry::open()?.down(name)?;
            println!("Cluster `{name}` {}.", if was_up { "is down" } else { "was not up" });
        }
        Task::Exec { node, command } => {
            // The registry is closed here, so that others can use it while the command runs.
            let running = Registry::open()?.get(name)?;
            return exec::run(&running, node, command);
        }
        Task::List => print!("{}", table(&Registry::open()?.list()?)),
    }
    Ok(ExitCode::SUCCESS)
}

fn option(name: &str) -> String {
    if name == "default" { String::new() } else { format!(" --name {name}") }
}

fn table(clusters: &[Running]) -> String {
    if clusters.is_empty() {
        return "No cluster is up.\n".to_owned();
    }
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let mut rows = vec![["cluster", "node", "address", "process", "rate", "delay"].map(str::to_owned).to_vec()];
    for cluster in clusters {
        let (rate, delay) = (cluster.rate.map(|rate| rate.to_string()), cluster.delay.map(|delay| delay.to_string()));
        for node in &cluster.nodes {
            let process = if node.is_alive() { node.holder.pid.to_string() } else { "dead".to_owned() };
            let (name, address) = (node.name.clone(), node.address.to_string());
            rows.push(vec![
                cluster.name.clone(),
                name,
                address,
                process,
                or_none(rate.clone()),
                or_none(delay.clone()),
            ]);
        }
    }
    columns(&rows, 3)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn check(line: &str, is_right: bool) {
        let args = std::iter::once("cluster").chain(line.split_whitespace());
        assert_eq!(Line::try_parse_from(args).is_ok(), is_right, "{line}");
    }

    #[test]
    fn command_lines() {
        check("up 4", true);
        check("up 4 --rate 200mbit --delay 1ms --name a --share /tmp/a --share /tmp/b", true);
        check("--name a down", true);
        check("exec all -- hostname", true);
        check("exec node001 --name a -- sh -c true", true);
        check("list", true);
        check("up", false);
        check("up 4 --rate 200", false);
        check("up 4 --delay 1", false);
        check("exec 1", false);
        check("exec -- hostname", false);
    }

    #[test]
    fn nothing_is_up() {
        assert_eq!(table(&[]), "No cluster is up.\n");
    }
}
