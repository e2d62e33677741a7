//! A directory that stands for a shared file system, a store of its own, and an audit library that
//! does nothing: what `headwater run` needs.

#![allow(dead_code, reason = "each test file uses a part")]

pub mod running;
pub mod terminal;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Timeout of a test's waits.
pub const TIMEOUT: Duration = Duration::from_secs(20);

pub struct Site {
    directory: TempDir,
}

impl Site {
    pub fn new() -> Site {
        let site = Site { directory: tempfile::tempdir().unwrap() };
        for name in ["shared", "store", "lib", "work"] {
            fs::create_dir(site.path(name)).unwrap();
        }
        site.write("work/audit.c", "unsigned la_version(unsigned version) { return version; }\n");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-nostdlib", "-ffreestanding", "-o"]);
        compiler.arg(site.path("lib/libheadwater-audit.so")).arg(site.path("work/audit.c"));
        assert!(compiler.status().unwrap().success());
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Returns `headwater run` with these arguments, which end with the program, and with a scope.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = self.plain_command(&[] as &[&str]);
        command.arg("--shared").arg(self.path("shared")).args(arguments);
        command
    }

    /// Returns `headwater run` with only these arguments.
    pub fn plain_command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("HEADWATER_")) {
            command.env_remove(name);
        }
        command.env("HEADWATER_LIBDIR", self.path("lib")).env("HEADWATER_STORE", self.path("store"));
        // The machine's files with defaults don't count.
        command.env("HEADWATER_VIA", "audit").env("HEADWATER_CONFIG", "");
        command.current_dir(self.path("work")).arg("run").args(arguments);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Asserts that no file and no process of a session is left in the store.
    pub fn assert_clean(&self) {
        eventually("the store is empty", || fs::read_dir(self.path("store")).unwrap().count() == 0);
        self.assert_no_process();
    }

    /// Asserts that no process of a session in this store is left.
    pub fn assert_no_process(&self) {
        eventually("no process is left", || processes_with(&self.path("store")).is_empty());
    }
}

/// Returns the processes with this path in their environment, without zombies.
pub fn processes_with(path: &Path) -> Vec<u32> {
    let needle = path.as_os_str().as_encoded_bytes();
    let mentions = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(needle.len()).any(|w| w == needle)
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(mentions).collect()
}

/// Waits until `condition` holds.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Compiles a C program of `tests/programs/` to `to`.
pub fn compile(source: &str, flags: &[&str], to: &Path) {
    let mut compiler = Command::new("cc");
    compiler.arg("-Wall").arg("-o").arg(to).arg(program_source(source)).args(flags);
    assert!(compiler.status().unwrap().success(), "{source}");
}

/// The source of a program of `tests/programs/`.
pub fn program_source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Returns whether this user can make the namespaces of `--via namespace`; prints the reason if not.
pub fn has_namespaces() -> bool {
    let doctor = Command::new(env!("CARGO_BIN_EXE_headwater")).args(["doctor", "--json"]).output().unwrap();
    let findings: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let can = findings["mechanisms"]["namespace"] == true;
    !skipped((!can).then_some("this user can make no namespace"))
}

/// Returns the mechanisms that work here without changing paths.
pub fn mechanisms() -> &'static [&'static str] {
    if has_namespaces() { &["audit", "namespace"] } else { &["audit"] }
}

/// Prints why a test is skipped.
pub fn skipped(reason: Option<&str>) -> bool {
    if let Some(reason) = reason {
        println!("skipped: {reason}");
    }
    reason.is_some()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
