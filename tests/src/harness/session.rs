//! `headwater run`, and `headwater mount` around a program, as the tests use them.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::mechanism::Mechanism;
use super::program::{Output, Program, Running};
use super::stats;
use super::traces::{processes_called, processes_using, wait_until};

/// How long after its end a session may need to vanish.
const VANISH_MAX: Duration = Duration::from_secs(60);

/// Mounts a view, runs a program on it, writes down what was counted, and unmounts it. `sh BINARY VIEW STATS STORE
/// PROCESSES OPTION… -- DIR PROGRAM…`
const ON_A_VIEW: &str = r#"
binary=$1 view=$2 stats=$3 store=$4 processes=$5 options=
shift 5
while [ "$1" != -- ]; do options="$options '$1'"; shift; done
eval "\"$binary\" mount \"$view\" --store \"$store\" $options" || exit 125
cd "$2" || exit 125
shift 2
status=0
if [ "$processes" = 1 ]; then
	"$@" || status=$?
else
	for number in $(seq "$processes"); do "$@" & all="$all $!"; done
	for one in $all; do wait "$one" || status=$?; done
fi
cd /
"$binary" stats --json --store "$store" > "$stats" || status=125
# A process that the program has left behind ends soon, on a busy machine later.
tries=0
until "$binary" unmount --store "$store" "$view" 2> "$stats.unmount"; do
	tries=$((tries + 1))
	if [ "$tries" = 100 ]; then cat "$stats.unmount" >&2; status=125; break; fi
	sleep 0.1
done
exit $status
"#;

/// The command. Panics with what to do if there is none.
pub fn headwater_binary() -> PathBuf {
    let binary = crate::prefix().join("bin/headwater");
    assert!(binary.is_file(), "{} is missing: run `cargo xtask dist` first", binary.display());
    binary
}

/// How a session is to be started.
#[derive(Clone, Debug)]
pub struct Headwater {
    shared: PathBuf,
    via: Mechanism,
    nodes: usize,
    processes: usize,
    options: Vec<OsString>,
    prefix: Vec<OsString>,
    store: Option<PathBuf>,
    names_store: bool,
}

impl Headwater {
    /// One node with one process, and `shared` in its scope.
    pub fn new(shared: &Path) -> Headwater {
        Headwater {
            shared: shared.to_path_buf(),
            via: Mechanism::Audit,
            nodes: 1,
            processes: 1,
            options: Vec::new(),
            prefix: Vec::new(),
            store: None,
            names_store: true,
        }
    }

    /// By this mechanism; the default is the audit library. A view mounted below a prefix of its own is one node, which
    /// has all of the processes.
    pub fn via(mut self, via: Mechanism) -> Headwater {
        self.via = via;
        self
    }

    /// This many nodes with this many processes each.
    pub fn on(mut self, nodes: usize, processes: usize) -> Headwater {
        (self.nodes, self.processes) = (nodes, processes);
        self
    }

    /// One more argument for `headwater run` or `headwater mount`.
    pub fn option(mut self, option: impl Into<OsString>) -> Headwater {
        self.options.push(option.into());
        self
    }

    /// Started through another command.
    pub fn behind<S: AsRef<str>>(mut self, prefix: &[S]) -> Headwater {
        self.prefix = prefix.iter().map(|word| OsString::from(word.as_ref())).collect();
        self
    }

    /// The store in this directory, which is not removed.
    pub fn store(mut self, dir: &Path) -> Headwater {
        self.store = Some(dir.into());
        self
    }

    /// The store is at its default; a session's remains in `/dev/shm` are not searched for.
    pub fn store_of_its_own(mut self) -> Headwater {
        self.names_store = false;
        self
    }

    /// Starts a session that runs `program`.
    pub fn start(&self, program: &Program) -> Starting {
        let files = crate::scratch("session");
        // Socket addresses are short, and so are stores' names.
        let own_store =
            tempfile::Builder::new().prefix("hwt-").tempdir_in("/dev/shm").expect("/dev/shm takes a directory");
        let store = self.store.clone().unwrap_or_else(|| own_store.path().to_path_buf());
        let view = files.path().join("view");
        fs::create_dir(&view).expect("a fresh directory");
        // Not even root's own helper mounts on a sticky directory of another user.
        for (dir, mode) in [(files.path(), 0o1777), (own_store.path(), 0o1777), (&view, 0o777)] {
            fs::set_permissions(dir, Permissions::from_mode(mode)).expect("an own directory");
        }
        let summary = files.path().join("summary.json");
        let (program, shown) = match self.via {
            Mechanism::Mount => (self.on_a_view(program, &view, &store, &summary), Some((view, self.shared.clone()))),
            _ => (program.behind(self.run_command(&store, &summary)), None),
        };
        let ancestor_lookups = (self.shared.components().count() - 1) * self.nodes;
        Starting {
            running: program.start(),
            via: self.via,
            ancestor_lookups: ancestor_lookups as u64,
            store,
            summary,
            shown,
            _files: files,
            _own_store: own_store,
        }
    }

    fn run_command(&self, store: &Path, summary: &Path) -> Vec<OsString> {
        let mut command = self.prefix.clone();
        command.extend([headwater_binary().into(), "run".into(), "--via".into(), self.via.name().into()]);
        command.extend(["--shared".into(), self.shared.clone().into()]);
        command.extend(["--nodes".into(), self.nodes.to_string().into()]);
        command.extend(["--ppn".into(), self.processes.to_string().into()]);
        if self.names_store {
            command.extend(["--store".into(), store.into()]);
        }
        command.extend(["--summary-json".into(), summary.into()]);
        command.extend(self.options.iter().cloned());
        command.push("--".into());
        command
    }

    fn on_a_view(&self, program: &Program, view: &Path, store: &Path, stats: &Path) -> Program {
        let mut command = self.prefix.clone();
        command.extend(["sh".into(), "-c".into(), ON_A_VIEW.into(), "sh".into()]);
        command.extend([headwater_binary().into(), view.into(), stats.into(), store.into()]);
        command.push((self.nodes * self.processes).to_string().into());
        command.extend(["--root".into(), self.shared.clone().into()]);
        command.extend(self.options.iter().cloned());
        command.push("--".into());
        program.replaced(&self.shared, view).behind_with_dir(&command)
    }

    /// Runs a session to its end, and checks that it left nothing behind.
    pub fn run(&self, program: &Program) -> Session {
        self.start(program).finish()
    }

    /// Runs `program` without Headwater and in a session, and checks that the results are the same, that Headwater took
    /// part, and that no path had to fall back to its source.
    pub fn same(&self, program: &Program) -> Session {
        let session = self.same_output(program);
        assert_eq!(session.fallbacks(), 0, "fallbacks\n{:#}", session.summary);
        assert_eq!(session.messages, "", "Headwater had no message");
        session
    }

    /// As [`Headwater::same`], but fallbacks are allowed.
    pub fn same_output(&self, program: &Program) -> Session {
        let plain = program.behind(&self.prefix).run();
        let session = self.run(program);
        session.output.assert_same(&plain);
        session.assert_served();
        session
    }
}

/// A session that runs.
pub struct Starting {
    /// The `headwater` process, or the shell that mounts and unmounts a view.
    pub running: Running,
    via: Mechanism,
    ancestor_lookups: u64,
    store: PathBuf,
    summary: PathBuf,
    /// A view and its source.
    shown: Option<(PathBuf, PathBuf)>,
    _files: TempDir,
    _own_store: TempDir,
}

impl Starting {
    /// The directory of its store.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// The path of its view, if it has a prefix of its own.
    pub fn view(&self) -> Option<&Path> {
        self.shown.as_ref().map(|(view, _)| view.as_path())
    }

    /// The directory of a node, once it exists.
    pub fn node_dir(&self, node: usize) -> PathBuf {
        let mut found = None;
        let is_served = wait_until(VANISH_MAX, || {
            found = self.sessions().first().map(|session| session.join(format!("n{node}")));
            found.as_ref().is_some_and(|dir| dir.is_dir())
        });
        assert!(is_served, "no directory of node {node} in {}", self.store.display());
        found.expect("found above")
    }

    /// The daemons' process IDs.
    pub fn daemons(&self) -> Vec<i32> {
        processes_called(&self.store, "headwater daemon")
    }

    /// The supervisors' process IDs.
    pub fn supervisors(&self) -> Vec<i32> {
        processes_called(&self.store, "headwater supervise")
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
        self.finish_within(super::program::TIME_MAX)
    }

    /// As [`Starting::finish`], with another limit.
    pub fn finish_within(self, time_max: Duration) -> Session {
        let Starting { running, via, ancestor_lookups, store, summary, shown, _files, _own_store } = self;
        let mut output = running.finish_within(time_max);
        if let Err(left) = Starting::check_gone(&store) {
            panic!("left behind: {left}\n{output:?}");
        }
        if let Some((view, root)) = shown {
            let at_source = |text: &str| text.replace(&*view.to_string_lossy(), &root.to_string_lossy());
            (output.stdout, output.stderr) = (at_source(&output.stdout), at_source(&output.stderr));
        }
        let summary = fs::read(&summary).ok().and_then(|json| serde_json::from_slice(&json).ok());
        let is_own = |line: &&str| line.starts_with("headwater: ") || line.contains("headwater_daemon");
        let (messages, stderr): (Vec<&str>, Vec<&str>) = output.stderr.split_inclusive('\n').partition(is_own);
        let (messages, stderr) = (messages.concat(), stderr.concat());
        output.stderr = stderr;
        Session { via, ancestor_lookups, summary: summary.unwrap_or(Value::Null), output, messages }
    }

    /// Waits until no process and no file of any session in `store` is left.
    pub fn check_gone(store: &Path) -> Result<(), String> {
        let gone = wait_until(VANISH_MAX, || Starting::left_behind(store).is_none());
        if gone { Ok(()) } else { Err(Starting::left_behind(store).unwrap_or_default()) }
    }

    /// Returns which processes and files of sessions in `store` there are.
    pub fn left_behind(store: &Path) -> Option<String> {
        let files: Vec<PathBuf> = fs::read_dir(store)
            .into_iter()
            .flatten()
            .flatten()
            .flat_map(|base| fs::read_dir(base.path()).into_iter().flatten().flatten())
            .map(|entry| entry.path())
            .collect();
        let processes = processes_using(store);
        let none = files.is_empty() && processes.is_empty();
        (!none).then(|| format!("files {files:?}, processes {processes:?}"))
    }
}

/// A session that has ended.
#[derive(Debug)]
pub struct Session {
    via: Mechanism,
    /// Look-ups of the scope's ancestor directories, on all nodes.
    ancestor_lookups: u64,
    /// The program's results.
    pub output: Output,
    /// Headwater's own lines on standard error.
    pub messages: String,
    /// The JSON summary, or a view's counters; null if there is none.
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

    /// Requests that the kernel made of the mounted file system.
    pub fn fuse_requests(&self) -> u64 {
        match self.via {
            Mechanism::Mount => stats::fuse_requests(&self.summary),
            _ => self.number("mount.upcalls"),
        }
    }

    /// How often a source file was used nevertheless.
    pub fn fallbacks(&self) -> u64 {
        match self.via {
            Mechanism::Audit => self.number("clients.fallbacks"),
            // The scope's ancestor directories are looked up at the source, on each node.
            Mechanism::Namespace => self.number("mount.from_original").saturating_sub(self.ancestor_lookups),
            Mechanism::Mount => stats::from_original(&self.summary),
        }
    }

    /// Panics if Headwater did not serve the program's files.
    pub fn assert_served(&self) {
        let served = if self.via.is_mounted() { self.fuse_requests() } else { self.number("clients.lookups") };
        assert!(served > 0, "Headwater took no part\n{:#}\n{:?}", self.summary, self.output);
    }
}
