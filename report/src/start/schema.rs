//! The schema. Times are nanoseconds, sizes are bytes; a time that is a moment counts from the program's start.

use serde::{Deserialize, Serialize};

/// The schema's name and version. A later version may add fields; one that changes or removes fields has another name.
pub const SCHEMA: &str = "headwater-report/start/1";

/// A program's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// [`SCHEMA`].
    pub schema: String,
    /// The program with its arguments.
    pub program: String,
    /// Where the events come from: `traced`, `record` or `strace`.
    pub source: String,
    /// The mechanism by which the program found its files; `off` without Headwater.
    pub via: String,
    /// The program's exit status; 128 and the number of the signal that ended it.
    pub exit_status: Option<u8>,
    /// From the start to the end of what was followed.
    pub wall_ns: u64,
    /// The parts of `wall_ns`.
    pub phases: Vec<Phase>,
    /// All calls on files.
    pub calls: Calls,
    /// All programs that were executed, in order.
    pub processes: Vec<Process>,
    /// Python's imports by top-level module, the slowest first.
    pub imports: Vec<Import>,
    /// Directories that are searched, those with most fruitless look-ups first.
    pub searches: Vec<Search>,
    /// Files, the slowest first.
    pub files: Vec<OpenFile>,
    /// Directories whose names are read, the slowest first.
    pub directories: Vec<Directory>,
    /// What Headwater did; `None` if the program ran without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
    /// What Headwater would save, by number of nodes.
    pub gain: Vec<Gain>,
    /// What the gain was computed for; `None` if it was not.
    pub gain_options: Option<GainOptions>,
    /// Assumptions, and what is missing.
    pub notes: Vec<String>,
}

/// What Headwater did for the program, and what it did not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// Why this mechanism.
    pub reason: String,
    /// From Headwater's start until its daemon served, before the program's start.
    pub session_ns: u64,
    /// From then until the program's start.
    pub entry_ns: u64,
    /// Calls that the mount or the node's copies answered.
    pub answered: Answers,
    /// Calls on served directories that went to the source files.
    pub source: Answers,
    /// Calls on other directories.
    pub outside: Answers,
    /// Calls of Headwater's own in the program's processes, which are in no other sum.
    pub own: Answers,
    /// Look-ups of the audit library; 0 by another mechanism.
    pub look_ups: u64,
    /// Of these: without any system call.
    pub look_ups_without_call: u64,
    /// Requests of the kernel to the mount; 0 without one.
    pub mount_requests: u64,
    /// Requests of processes for which the daemon had to fetch something, and those that waited for it.
    pub fetches: u64,
    /// The sum of these waits.
    pub fetches_ns: u64,
    /// Operations on the shared file system, by the daemon.
    pub shared_fs_operations: u64,
    /// Bytes that the daemon read from it.
    pub shared_fs_bytes: u64,
    /// What was not served.
    pub not_served: Vec<NotServed>,
}

/// Calls of one kind of answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// How many.
    pub calls: u64,
    /// The sum of their times.
    pub length_ns: u64,
    /// Those that fail.
    pub failed: u64,
    /// Bytes that are read.
    pub read_bytes: u64,
    /// Bytes that are mapped.
    pub mapped_bytes: u64,
}

/// A file or directory that was not served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NotServed {
    /// Its path; a directory stands for all below it.
    pub path: String,
    /// The reason.
    pub why: String,
    /// Calls on it.
    pub calls: u64,
    /// The sum of their times.
    pub length_ns: u64,
}

/// A part of the start. Parts don't overlap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// `loader`, `imports` or `own code`.
    pub name: String,
    /// How long it takes.
    pub length_ns: u64,
}

/// Calls on files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// The sum of their times, over all processes.
    pub length_ns: u64,
    /// Those of `count` that fail.
    pub failed: u64,
    /// The sum of their times.
    pub failed_ns: u64,
    /// Bytes that are read.
    pub read_bytes: u64,
}

/// A program that was executed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// The PID.
    pub pid: u32,
    /// The parent's, if it was followed.
    pub parent_pid: Option<u32>,
    /// The program's file.
    pub file: String,
    /// The arguments, possibly cut.
    pub command: String,
    /// When it was executed.
    pub start_ns: u64,
    /// When the loader had loaded its libraries; `None` for a static program.
    pub loaded_ns: Option<u64>,
    /// When it ended or executed another program.
    pub end_ns: u64,
    /// Its calls.
    pub calls: Calls,
    /// Its imports.
    pub imports: Vec<Span>,
}

/// The import of a module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The module's top-level module.
    pub module: String,
    /// When its search began.
    pub start_ns: u64,
    /// When the search for the next module began.
    pub end_ns: u64,
}

/// The imports of a top-level module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Import {
    /// Its name.
    pub module: String,
    /// Its own time and that of its submodules.
    pub own_ns: u64,
    /// From its first import to the end of its last one, other modules included.
    pub total_ns: u64,
    /// Modules that are loaded.
    pub modules: u64,
    /// Calls on files during `own_ns`.
    pub calls: u64,
    /// The sum of their times.
    pub calls_ns: u64,
}

/// Why a directory is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchKind {
    /// `LD_LIBRARY_PATH` names it.
    LdLibraryPath,
    /// The `DT_RPATH` of an object names it.
    Rpath,
    /// The `DT_RUNPATH` of an object names it.
    Runpath,
    /// The loader's own directories and files.
    Loader,
    /// `PATH` names it.
    Path,
    /// `PYTHONPATH` names it.
    PythonPath,
    /// Python's `sys.path` has it for another reason.
    SysPath,
    /// Locales and character sets.
    Locale,
    /// No search path that is known.
    Other,
}

/// A directory that is searched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// Why it is searched.
    pub kind: SearchKind,
    /// The directory.
    pub directory: String,
    /// The object whose RPATH or RUNPATH names it.
    pub object: Option<String>,
    /// Look-ups that find nothing.
    pub fruitless: u64,
    /// The sum of their times.
    pub fruitless_ns: u64,
    /// Look-ups that find what they search.
    pub found: u64,
    /// What would remove the fruitless look-ups.
    pub advice: Option<String>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenFile {
    /// Its path.
    pub path: String,
    /// When it was first asked for.
    pub start_ns: u64,
    /// The sum of its calls' times.
    pub length_ns: u64,
    /// Calls on it.
    pub calls: u64,
    /// How often it was opened.
    pub opens: u64,
    /// Processes that asked for it.
    pub processes: u64,
    /// Its size, if it is known.
    pub size_bytes: Option<u64>,
    /// Bytes that are read.
    pub read_bytes: u64,
    /// Bytes that are mapped, over all processes.
    pub mapped_bytes: u64,
    /// The most bytes of it that a process had in memory at its end; `None` if it was not mapped then.
    pub used_bytes: Option<u64>,
}

/// A directory whose names are read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Directory {
    /// Its path.
    pub path: String,
    /// Calls that read names.
    pub calls: u64,
    /// Names that are read.
    pub names: u64,
    /// The sum of the calls' times.
    pub length_ns: u64,
}

/// What Headwater would save at one number of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Nodes.
    pub nodes: u32,
    /// Until the last process has started, without Headwater.
    pub without_seconds: f64,
    /// The same with Headwater.
    pub with_seconds: f64,
    /// Operations on the shared file system's servers, without Headwater.
    pub without_requests: u64,
    /// The same with Headwater.
    pub with_requests: u64,
}

/// What the gain is computed for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GainOptions {
    /// The model of the shared file system.
    pub file_system: String,
    /// Processes on each node.
    pub processes_per_node: u32,
    /// The directories that the shared file system has; empty for all but the machine's own.
    pub shared: Vec<String>,
    /// Look-ups in them.
    pub look_ups: u64,
}

impl Start {
    /// Returns the report as JSON, with a line feed at its end.
    ///
    /// # Errors
    /// A time of the model is no number.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Returns the searches for which there is advice, those first that cost most.
    pub fn advice(&self) -> Vec<&str> {
        let mut searches: Vec<&Search> = self.searches.iter().filter(|search| search.advice.is_some()).collect();
        searches.sort_by_key(|search| std::cmp::Reverse(search.fruitless_ns));
        searches.iter().filter_map(|search| search.advice.as_deref()).collect()
    }

    /// Returns whether more than one program was executed.
    pub(super) fn has_children(&self) -> bool {
        self.processes.len() > 1
    }
}

impl SearchKind {
    /// Returns its name, as people read it.
    pub fn name(self) -> &'static str {
        match self {
            SearchKind::LdLibraryPath => "LD_LIBRARY_PATH",
            SearchKind::Rpath => "RPATH",
            SearchKind::Runpath => "RUNPATH",
            SearchKind::Loader => "loader",
            SearchKind::Path => "PATH",
            SearchKind::PythonPath => "PYTHONPATH",
            SearchKind::SysPath => "sys.path",
            SearchKind::Locale => "locale",
            SearchKind::Other => "other",
        }
    }
}
