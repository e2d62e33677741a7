//! A directory of files, seen through `headwater mount`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use headwater_fuse::mount::{mounted, unmount};
use headwater_store::layout::NodeDir;
use headwater_supervisor::client::{Request, Status, ask};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::site::{eventually, processes_with, text};

/// A mount, which is removed when this is dropped, even if its server is dead.
pub struct View {
    directory: Arc<TempDir>,
    /// The mount point's name.
    place: String,
    options: Vec<String>,
    binary: PathBuf,
}

/// Returns the bytes of file `number`, without reading the source file.
pub fn content(number: usize) -> Vec<u8> {
    let line = format!("file {number}\n");
    line.bytes().cycle().take(1024 + number % 4096).collect()
}

impl View {
    /// Prepares a directory with `files` files in directories of at most 100, to be mounted with these options. Prints
    /// the reason and returns `None` if nothing can be mounted.
    pub fn prepare(files: usize, options: &[&str]) -> Option<View> {
        if let Err(error) = fs::File::options().read(true).write(true).open("/dev/fuse") {
            println!("skipped: /dev/fuse can't be opened: {error}");
            return None;
        }
        let view = View {
            directory: Arc::new(tempfile::tempdir().unwrap()),
            place: "mnt".into(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            binary: env!("CARGO_BIN_EXE_headwater").into(),
        };
        for name in ["shared", "store", "mnt"] {
            fs::create_dir(view.path(name)).unwrap();
        }
        for number in 0..files {
            let original = view.path("shared").join(name(number));
            fs::create_dir_all(original.parent().unwrap()).unwrap();
            fs::write(original, content(number)).unwrap();
        }
        Some(view)
    }

    /// The same, mounted.
    pub fn mounted(files: usize, options: &[&str]) -> Option<View> {
        let view = View::prepare(files, options)?;
        view.mount();
        Some(view)
    }

    /// The same files at the mount point of one of several nodes.
    pub fn at(view: &View, place: &str) -> View {
        let (options, binary) = (view.options.clone(), view.binary.clone());
        View { directory: Arc::clone(&view.directory), place: place.into(), options, binary }
    }

    /// From now on this binary is used instead of the one that was built.
    pub fn use_binary(&mut self, binary: PathBuf) {
        self.binary = binary;
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn mount_point(&self) -> PathBuf {
        self.path(&self.place)
    }

    /// A file of the view.
    pub fn file(&self, number: usize) -> PathBuf {
        self.mount_point().join(name(number))
    }

    /// `headwater` with the store and log level of the test.
    pub fn headwater(&self, command: &str) -> Command {
        let mut headwater = Command::new(&self.binary);
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("HEADWATER_")) {
            headwater.env_remove(name);
        }
        headwater.env("HEADWATER_STORE", self.path("store")).env("HEADWATER_CONFIG", "").arg(command);
        headwater
    }

    /// The command that mounts.
    pub fn mount_command(&self) -> Command {
        let mut command = self.headwater("mount");
        command.arg(self.mount_point()).arg("--root").arg(self.path("shared")).args(&self.options);
        command
    }

    pub fn mount(&self) {
        let output = self.mount_command().output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "");
    }

    pub fn unmount(&self, options: &[&str]) -> Output {
        self.headwater("unmount").arg(self.mount_point()).args(options).output().unwrap()
    }

    /// Unmounts, and makes sure that nothing is left.
    pub fn end(&self) {
        let output = self.unmount(&[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        self.assert_gone();
    }

    /// Nothing of the session is left.
    #[track_caller]
    pub fn assert_gone(&self) {
        eventually("the mount is gone", || self.mounts().is_empty());
        eventually("the store is empty", || fs::read_dir(self.path("store")).unwrap().count() == 0);
        eventually("no process is left", || self.processes("").is_empty());
    }

    /// Mount points of this test.
    pub fn mounts(&self) -> Vec<PathBuf> {
        let all = mounted("headwater").unwrap().into_iter().map(|mounted| mounted.mount_point);
        all.filter(|mount_point| mount_point.starts_with(self.directory.path())).collect()
    }

    /// Processes of this session that run this subcommand; with none, all of them.
    pub fn processes(&self, subcommand: &str) -> Vec<Pid> {
        let is_it = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut arguments = line.split(|&byte| byte == 0);
            arguments.next() == Some(b"headwater")
                && (subcommand.is_empty() || arguments.next() == Some(subcommand.as_bytes()))
        };
        let all = processes_with(&self.path("store")).into_iter().filter(is_it);
        all.map(|pid| Pid::from_raw(pid as i32).unwrap()).collect()
    }

    /// Kills every process of this session that runs this subcommand, at once.
    pub fn kill(&self, subcommand: &str) {
        for pid in self.processes(subcommand) {
            // A process may have just ended.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// The directory of a node.
    pub fn node(&self, node: u32) -> NodeDir {
        let base = fs::read_dir(self.path("store")).unwrap().next().unwrap().unwrap().path();
        let session = fs::read_dir(base).unwrap().next().unwrap().unwrap().path();
        NodeDir::new(session.join(format!("n{node}")))
    }

    /// Returns the supervisor's status.
    pub fn status(&self) -> Status {
        ask(&self.node(0).supervisor(), Request::Status).unwrap().status.unwrap()
    }

    /// Compares files of the view with their expected contents.
    #[track_caller]
    pub fn check(&self, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            let read = fs::read(self.file(number)).unwrap();
            assert!(read == content(number), "file {number} is wrong");
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if Arc::strong_count(&self.directory) > 1 {
            return;
        }
        for mount_point in self.mounts() {
            let _ = unmount(&mount_point, true);
        }
        self.kill("");
    }
}

fn name(number: usize) -> String {
    format!("d{}/f{number}", number / 100)
}

/// Returns whether the mount here is dead. Cached attributes of the kernel don't count.
pub fn is_dead(mount_point: &Path) -> bool {
    let asked = statx(CWD, mount_point, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS);
    asked.is_err_and(|error| error == rustix::io::Errno::NOTCONN)
}
