//! Hidden commands that headwater starts itself.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::io::options::InnerIoOptions;

/// A hidden command. Its parser is separate, since parsing the whole definition would take longer than the command.
#[derive(Debug, Parser)]
#[command(name = "headwater", disable_help_subcommand = true)]
pub struct InnerLine {
    /// What to do.
    #[command(subcommand)]
    pub command: InnerCommand,
}

/// Hidden commands.
#[derive(Debug, Subcommand)]
pub enum InnerCommand {
    /// Run one node's daemon, with its configuration on standard input.
    Daemon,
    /// Run one node's supervisor, which mounts and starts the daemon, with its configuration on standard input.
    Supervise,
    /// Make a node's namespaces, as requested by the supervisor over standard input.
    Namespace(NamespaceOptions),
    /// Execute a program, as one process of a session.
    Exec(Box<ExecOptions>),
    /// Run the front end for a launcher's plugin, until standard input ends.
    Front(FrontOptions),
    /// Run the node agent of a job.
    Node(NodeOptions),
    /// Hold a RAM disk's descriptor until standard input ends.
    Keep(KeepOptions),
    /// Own the zygotes of a node's ranks.
    Warm(WarmOptions),
}

/// Options of `headwater namespace`.
#[derive(Debug, Args)]
pub struct NamespaceOptions {
    /// Only probe the kernel, and print the result.
    #[arg(long)]
    pub probe: bool,
    /// Make a RAM disk of so many bytes instead, for the process at standard input.
    #[arg(long)]
    pub disk: Option<u64>,
}

/// Options of `headwater keep`.
#[derive(Debug, Args)]
pub struct KeepOptions {
    /// The descriptor of its root directory.
    pub root: u32,
}

/// Options of `headwater exec`.
#[derive(Debug, Args)]
pub struct ExecOptions {
    /// The audit library that the program is started with.
    #[arg(long)]
    pub audit: Option<PathBuf>,
    /// The supervisor whose namespaces the program is started in.
    #[arg(long, conflicts_with = "audit")]
    pub enter: Option<PathBuf>,
    /// The process that this one must not outlive.
    #[arg(long)]
    pub parent: Option<u32>,
    /// With --parent: ask the program to end, instead of killing it.
    #[arg(long, requires = "parent")]
    pub gently: bool,
    /// The job file, by which the node agent is found.
    #[arg(long, conflicts_with_all = ["audit", "enter"])]
    pub job: Option<PathBuf>,
    /// The directory of the node's store.
    #[arg(long, requires = "job")]
    pub store: Option<PathBuf>,
    /// Fork the program from a zygote, if possible.
    #[arg(long)]
    pub zygote: bool,
    /// Modules that the zygote imports.
    #[arg(long, requires = "zygote")]
    pub imports: Option<String>,
    /// The file with statements that reseed these modules.
    #[arg(long, requires = "imports")]
    pub reseed: Option<PathBuf>,
    /// The directory of the node whose zygote has forked this process's parent.
    #[arg(long, requires = "zygote")]
    pub node: Option<PathBuf>,
    /// This process reports for its node.
    #[arg(long, requires = "zygote")]
    pub reports: bool,
    #[command(flatten)]
    pub trace: TraceOptions,
    #[command(flatten)]
    pub io: InnerIoOptions,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

/// Whether and how the program is traced.
#[derive(Clone, Debug, Default, Args)]
pub struct TraceOptions {
    /// Trace the program, and write its events to this file.
    #[arg(long, conflicts_with = "zygote")]
    pub events: Option<PathBuf>,
    /// Release it after so many seconds.
    #[arg(long, requires = "events")]
    pub events_seconds: Option<u32>,
    /// Stop it at each call.
    #[arg(long, requires = "events")]
    pub events_exact: bool,
}

impl TraceOptions {
    /// Returns the file for this process's program. The file is made by the program's process, unless another user has
    /// made one of this name.
    pub fn temporary_file() -> PathBuf {
        std::env::temp_dir().join(format!("headwater-events-{}", std::process::id()))
    }

    /// Removes such a file when the program has ended, and returns its text. It is empty if the program's calls could not
    /// be traced, or if the file is another user's.
    pub fn take(file: &Path) -> String {
        // Another user's may be a FIFO or a link.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let opened = File::options().read(true).custom_flags(flags).open(file);
        let is_own = |found: &Metadata| found.is_file() && found.uid() == geteuid().as_raw();
        let mut text = Vec::new();
        if let Ok(mut opened) = opened
            && opened.metadata().is_ok_and(|found| is_own(&found))
        {
            // What can't be read is missing in the report.
            let _ = opened.read_to_end(&mut text);
            let _ = fs::remove_file(file);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Returns these options as arguments of `headwater exec`.
    pub fn arguments(&self) -> Vec<OsString> {
        let Some(events) = &self.events else { return Vec::new() };
        let mut arguments = vec![OsString::from("--events"), events.into()];
        if let Some(seconds) = self.events_seconds {
            arguments.extend(["--events-seconds".into(), seconds.to_string().into()]);
        }
        arguments.extend(self.events_exact.then(|| "--events-exact".into()));
        arguments
    }

    /// Returns them as the tracer takes them.
    pub fn of_tracer(&self) -> headwater_tracer::Options {
        let until = self.events_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        headwater_tracer::Options { until, exact: self.events_exact, untraced: None }
    }
}

/// Options of `headwater warm`.
#[derive(Debug, Args)]
pub struct WarmOptions {
    /// The node's directory.
    pub node: PathBuf,
}

/// Options of `headwater node`.
#[derive(Debug, Args)]
pub struct NodeOptions {
    /// The directory of the node's store.
    #[arg(long)]
    pub store: Option<PathBuf>,
    /// Standard input stays open until the owner of the node's processes ends.
    #[arg(long)]
    pub has_owner: bool,
    /// If the node has an agent of the session already, its socket is printed.
    #[arg(long)]
    pub joins: bool,
    /// The job file.
    pub job: PathBuf,
}

/// Options of `headwater front`.
#[derive(Debug, Args)]
pub struct FrontOptions {
    /// Options of `headwater start`, separated by commas, without leading dashes.
    #[arg(long, default_value = "")]
    pub options: String,
    /// The program whose directories are served.
    #[arg(trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ones_own_file_of_events_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["own", "target", "others"] {
            fs::write(path(name), name).unwrap();
        }
        std::os::unix::fs::symlink(path("target"), path("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(["own", "link", "fifo", "absent"].map(|name| TraceOptions::take(&path(name))), ["own", "", "", ""]);
        assert!(!path("own").exists() && path("target").exists() && path("link").is_symlink() && path("fifo").exists());
        // Only root may give a file away.
        if std::os::unix::fs::chown(path("others"), Some(geteuid().as_raw() + 1), None).is_ok() {
            assert_eq!(TraceOptions::take(&path("others")), "");
            assert!(path("others").exists());
        }
    }
}
