//! `headwater run` as the tests use it.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::program::{Output, Program, Running};
use super::traces::{processes_using, wait_until};

/// How long after its end a session may need to vanish.
const VANISH_MAX: Duration = Duration::from_secs(5);

/// The built command, or an installed one that HEADWATER_TEST_BINARY names. Panics with what to do
/// if there is none.
pub fn headwater_binary() -> PathBuf {
    let named = std::env::var_os("HEADWATER_TEST_BINARY").map(PathBuf::from);
    let binary = named.unwrap_or_else(|| crate::workspace().join("target/dist/bin/headwater"));
    assert!(binary.is_file(), "{} is missing: run `cargo xtask dist` first", binary.display());
    binary
}

/// How a session is to be started.
#[derive(Clone, Debug)]
pub struct Headwater {
    nodes: usize,
    processes: usize,
    options: Vec<OsString>,
    prefix: Vec<OsString>,
    store: Option<PathBuf>,
}

impl Headwater {
    /// One node with one process, and `shared` in its scope.
    pub fn new(shared: &Path) -> Headwater {
        let plain = Headwater { nodes: 1, processes: 1, options: Vec::new(), prefix: Vec::new(), store: None };
        plain.option("--shared").option(shared)
    }

    /// This many nodes with this many processes each.
    pub fn on(mut self, nodes: usize, processes: usize) -> Headwater {
        (self.nodes, self.processes) = (nodes, processes);
        self
    }

    /// One more argument for `headwater run`.
    pub fn option(mut self, option: impl Into<OsString>) -> Headwater {
        self.options.push(option.into());
        self
    }

    /// Started through another command.
    pub fn behind(mut self, prefix: &[&str]) -> Headwater {
        self.prefix = prefix.iter().map(OsString::from).collect();
        self
    }

    /// The store in this directory, which is not removed.
    pub fn store(mut self, dir: &Path) -> Headwater {
        self.store = Some(dir.into());
        self
    }

    /// Starts a session that runs `program`.
    pub fn start(&self, program: &Program) -> Starting {
        let files = crate::scratch("session");
        // Socket addresses are short, and so are stores' names.
        let own_store =
            tempfile::Builder::new().prefix("hwt-").tempdir_in("/dev/shm").expect("/dev/shm takes a directory");
        let store = self.store.clone().unwrap_or_else(|| own_store.path().to_path_buf());
        for dir in [files.path(), own_store.path()] {
            fs::set_permissions(dir, Permissions::from_mode(0o1777)).expect("an own directory");
        }
        let summary = files.path().join("summary.json");
        let mut command = self.prefix.clone();
        command.extend([headwater_binary().into(), "run".into()]);
        command.extend(["--nodes".into(), self.nodes.to_string().into()]);
        command.extend(["--ppn".into(), self.processes.to_string().into()]);
        command.extend(["--store".into(), store.clone().into(), "--summary-json".into(), summary.clone().into()]);
        command.extend(self.options.iter().cloned());
        command.push("--".into());
        Starting { running: program.behind(command).start(), store, summary, _files: files, _own_store: own_store }
    }

    /// Runs a session to its end, and checks that it left nothing behind.
    pub fn run(&self, program: &Program) -> Session {
        self.start(program).finish()
    }

    /// Runs `program` without Headwater and in a session, and checks that it did the same, that
    /// Headwater took part, and that nothing had to fall back to the original.
    pub fn same(&self, program: &Program) -> Session {
        let session = self.same_output(program);
        assert_eq!(session.number("clients.fallbacks"), 0, "fallbacks\n{:#}", session.summary);
        assert_eq!(session.messages, "", "Headwater had nothing to say");
        session
    }

    /// As [`Headwater::same`], but fallbacks are allowed.
    pub fn same_output(&self, program: &Program) -> Session {
        let plain = program.behind(&self.prefix).run();
        let session = self.run(program);
        session.output.assert_same(&plain);
        assert!(session.number("clients.lookups") > 0, "Headwater took no part\n{:#}", session.summary);
        session
    }
}

/// A session that runs.
pub struct Starting {
    /// The `headwater` process.
    pub running: Running,
    store: PathBuf,
    summary: PathBuf,
    _files: TempDir,
    _own_store: TempDir,
}

impl Starting {
    /// The directory of its store.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// The directory of a node, once it stands.
    pub fn node_dir(&self, node: usize) -> PathBuf {
        let mut found = None;
        let stands = wait_until(VANISH_MAX, || {
            found = self.sessions().first().map(|session| session.join(format!("n{node}")));
            found.as_ref().is_some_and(|dir| dir.is_dir())
        });
        assert!(stands, "no directory of node {node} in {}", self.store.display());
        found.expect("found above")
    }

    /// The daemons' process IDs.
    pub fn daemons(&self) -> Vec<i32> {
        let users = processes_using(&self.store).into_iter();
        users.filter(|(_, line)| line.contains("headwater daemon")).map(|(pid, _)| pid).collect()
    }

    fn sessions(&self) -> Vec<PathBuf> {
        let entries =
            |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect::<Vec<_>>();
        let bases = entries(&self.store)
            .into_iter()
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("headwater-")));
        bases.flat_map(|base| entries(&base)).filter(|path| path.is_dir()).collect()
    }

    /// Waits for its end and checks that nothing is left.
    pub fn finish(self) -> Session {
        let Starting { running, store, summary, _files, _own_store } = self;
        let mut output = running.finish();
        let shell = Starting::check_gone(&store);
        if let Err(left) = shell {
            panic!("left behind: {left}\n{output:?}");
        }
        let summary = fs::read(&summary).ok().and_then(|json| serde_json::from_slice(&json).ok());
        let is_own = |line: &&str| line.starts_with("headwater: ") || line.contains("headwater_daemon");
        let (messages, stderr): (Vec<&str>, Vec<&str>) = output.stderr.split_inclusive('\n').partition(is_own);
        let (messages, stderr) = (messages.concat(), stderr.concat());
        output.stderr = stderr;
        Session { summary: summary.unwrap_or(Value::Null), output, messages }
    }

    /// Waits until no process and no file of any session in `store` is left.
    pub fn check_gone(store: &Path) -> Result<(), String> {
        let mut left = String::new();
        let gone = wait_until(VANISH_MAX, || {
            let files: Vec<PathBuf> = fs::read_dir(store)
                .into_iter()
                .flatten()
                .flatten()
                .flat_map(|base| fs::read_dir(base.path()).into_iter().flatten().flatten())
                .map(|entry| entry.path())
                .collect();
            let processes = processes_using(store);
            left = format!("files {files:?}, processes {processes:?}");
            files.is_empty() && processes.is_empty()
        });
        if gone { Ok(()) } else { Err(left) }
    }
}

/// A session that has ended.
#[derive(Debug)]
pub struct Session {
    /// What the program did.
    pub output: Output,
    /// What Headwater itself said on standard error.
    pub messages: String,
    /// The JSON summary; null if there is none.
    pub summary: Value,
}

impl Session {
    /// A number of the summary by its path, as `clients.requests`.
    pub fn number(&self, path: &str) -> u64 {
        let value = path.split('.').fold(&self.summary, |value, key| &value[key]);
        value
            .as_u64()
            .unwrap_or_else(|| panic!("no number {path} in the summary: {:#}\n{:?}", self.summary, self.output))
    }
}
