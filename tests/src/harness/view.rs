//! `headwater mount` as the tests use it.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use serde_json::Value;
use tempfile::TempDir;

use super::program::Program;
use super::session::{Starting, headwater_binary};
use super::stats;
use super::traces::{abort_connection, is_running, mount_type, processes_called, wait_until};

/// How long an unmounted view's processes may stay.
const VANISH_MAX: Duration = Duration::from_secs(60);
/// How long unmounting may take after a test has failed.
const UNMOUNT_MAX: Duration = Duration::from_secs(10);

/// How a view is to be mounted.
#[derive(Clone, Debug)]
pub struct Mounting {
    root: PathBuf,
    options: Vec<OsString>,
    store: Option<PathBuf>,
}

/// A directory whose mounts disappear from all namespaces when they are unmounted. Where mounts are private, as in a
/// container, those of other tests' sessions would prolong a view's life.
struct SharedDir(TempDir);

impl SharedDir {
    fn new() -> SharedDir {
        let dir = crate::scratch("view");
        // An ordinary user can't, and has no namespaces that see this user's views.
        let _ =
            mount_bind(dir.path(), dir.path()).and_then(|()| mount_change(dir.path(), MountPropagationFlags::SHARED));
        SharedDir(dir)
    }
}

impl Drop for SharedDir {
    fn drop(&mut self) {
        let _ = unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

/// A directory seen through `headwater mount`. Dropped, it is unmounted; [`View::unmount`] checks
/// that nothing is left.
pub struct View {
    root: PathBuf,
    mount_point: PathBuf,
    store: PathBuf,
    is_mounted: bool,
    _dir: SharedDir,
    _own_store: TempDir,
}

impl Mounting {
    /// A view of `root`.
    pub fn of(root: &Path) -> Mounting {
        Mounting { root: root.to_path_buf(), options: Vec::new(), store: None }
    }

    /// One more argument for `headwater mount`.
    pub fn option(mut self, option: impl Into<OsString>) -> Mounting {
        self.options.push(option.into());
        self
    }

    /// With the store in this directory, which is not removed.
    pub fn store(mut self, dir: &Path) -> Mounting {
        self.store = Some(dir.to_path_buf());
        self
    }

    /// Mounts it, and makes sure that it is mounted.
    pub fn mount(&self) -> View {
        let dir = SharedDir::new();
        let mount_point = dir.0.path().join("view");
        fs::create_dir(&mount_point).expect("a fresh directory");
        let own_store =
            tempfile::Builder::new().prefix("hwt-").tempdir_in("/dev/shm").expect("/dev/shm takes a directory");
        let store = self.store.clone().unwrap_or_else(|| own_store.path().to_path_buf());
        for (path, mode) in [(dir.0.path(), 0o755), (&mount_point, 0o777), (own_store.path(), 0o1777)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("an own directory");
        }
        let command = Program::new(headwater_binary())
            .args([OsString::from("mount"), mount_point.clone().into()])
            .args(["--root".into(), self.root.clone().into_os_string(), "--store".into(), store.clone().into()])
            .args(&self.options);
        let output = command.run();
        assert_eq!(output.status, 0, "{output:?}");
        let kind = mount_type(&mount_point);
        assert_eq!(kind.as_deref(), Some("fuse.headwater"), "{} {output:?}", mount_point.display());
        View { root: self.root.clone(), mount_point, store, is_mounted: true, _dir: dir, _own_store: own_store }
    }
}

impl View {
    /// A view of `root` with nothing special.
    pub fn of(root: &Path) -> View {
        Mounting::of(root).mount()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.mount_point
    }

    /// A path below it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.mount_point.join(name)
    }

    /// Its source.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The same program with the view's paths instead of the root's.
    pub fn program(&self, program: &Program) -> Program {
        program.replaced(&self.root, &self.mount_point)
    }

    /// The output of `headwater stats --json`.
    pub fn stats(&self) -> Value {
        let store = ["--store".as_ref(), self.store.as_os_str()];
        let stats = Program::new(headwater_binary()).args(["stats", "--json"]).args(store);
        let output = stats.run();
        assert_eq!(output.status, 0, "{output:?}");
        serde_json::from_str(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
    }

    /// Has what changed below the root read anew.
    pub fn refresh(&self) {
        let refresh = Program::new(headwater_binary()).arg("refresh").arg("--store").arg(&self.store);
        let output = refresh.run();
        assert_eq!(output.status, 0, "{output:?}");
    }

    /// How many requests the kernel has made so far; see [`stats::fuse_requests`].
    pub fn fuse_requests(&self) -> u64 {
        stats::fuse_requests(&self.stats())
    }

    /// How many of them were for pages, and how many for anything else.
    pub fn fuse_requests_by_kind(&self) -> (u64, u64) {
        let stats = self.stats();
        let pages = stats::page_requests(&stats);
        (pages, stats::fuse_requests(&stats) - pages)
    }

    /// The number of each operation, as text.
    pub fn operations(&self) -> String {
        stats::operations(&self.stats())
    }

    /// The daemons' process IDs.
    pub fn daemons(&self) -> Vec<i32> {
        processes_called(&self.store, "headwater daemon")
    }

    /// The supervisors' process IDs.
    pub fn supervisors(&self) -> Vec<i32> {
        processes_called(&self.store, "headwater supervise")
    }

    /// The path of its store.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// `headwater unmount` of it.
    pub fn unmount_command(&self) -> Program {
        let store = ["--store".as_ref(), self.store.as_os_str()];
        Program::new(headwater_binary()).arg("unmount").args(store).arg(&self.mount_point)
    }

    /// Unmounts it with `headwater unmount` and checks that nothing is left.
    pub fn unmount(mut self) {
        let output = self.unmount_command().run();
        assert_eq!(output.status, 0, "{output:?}");
        self.check_gone();
    }

    /// Checks that it has been unmounted and that nothing of it is left.
    pub fn check_gone(&mut self) {
        let unmounted = wait_until(VANISH_MAX, || mount_type(&self.mount_point).is_none());
        assert!(unmounted, "{} is still mounted", self.mount_point.display());
        self.is_mounted = false;
        if let Err(left) = Starting::check_gone(&self.store) {
            panic!("left behind: {left}");
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if !self.is_mounted {
            return;
        }
        // Other processes do it, and are not waited for without end: a mount whose server hangs blocks every process
        // that uses it.
        let unmounts = self.unmount_command().arg("--lazy").start();
        let is_gone = || mount_type(&self.mount_point).is_none();
        if !wait_until(UNMOUNT_MAX, || is_gone() && !is_running(unmounts.pid().as_raw_pid())) {
            abort_connection(&self.mount_point);
            let detaches = Program::new("umount").arg("-l").arg(&self.mount_point).start();
            wait_until(VANISH_MAX, || !is_running(detaches.pid().as_raw_pid()));
        }
    }
}
