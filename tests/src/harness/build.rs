//! Directories that represent a shared file system, with programs and libraries built into them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::session::Headwater;
use super::user;

/// A directory with `shared` in it, the scope of the sessions, and room beside it.
pub struct Fixture {
    dir: TempDir,
}

impl Fixture {
    /// An empty one.
    pub fn new(purpose: &str) -> Fixture {
        Fixture::made(crate::scratch(purpose))
    }

    /// An empty one in this directory.
    pub fn new_in(purpose: &str, parent: &str) -> Fixture {
        let dir = tempfile::Builder::new().prefix(&format!("hwt-{purpose}-")).tempdir_in(parent);
        Fixture::made(dir.expect("the parent takes a directory"))
    }

    fn made(dir: TempDir) -> Fixture {
        let fixture = Fixture { dir };
        fs::create_dir(fixture.shared()).expect("a fresh directory");
        for dir in [fixture.dir.path(), &fixture.shared()] {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("an own directory");
        }
        fixture
    }

    /// The directory that represents the shared file system.
    pub fn shared(&self) -> PathBuf {
        self.dir.path().join("shared")
    }

    /// A path below `shared`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.shared().join(name)
    }

    /// A path outside `shared`.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The arguments that run a command as such a user, who may mount; see [`user::with_fuse`].
    pub fn commands_of(&self, user: &[&str]) -> Vec<String> {
        let dir = self.outside("dev");
        fs::create_dir_all(&dir).expect("an own directory");
        user::with_fuse(user, &dir)
    }

    /// Sessions with `shared` in their scope.
    pub fn headwater(&self) -> Headwater {
        Headwater::new(&self.shared())
    }

    /// Makes a directory below `shared`.
    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("an own directory");
        path
    }

    /// Makes a file below `shared`.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("below shared")).expect("an own directory");
        fs::write(&path, content).expect("an own directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("an own file");
        path
    }

    /// Makes a symbolic link below `shared`.
    pub fn link(&self, target: impl AsRef<Path>, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("below shared")).expect("an own directory");
        symlink(target, &path).expect("an own directory");
        path
    }

    /// Builds `tests/programs/SOURCE` into `name` below `shared`. `{shared}` in a flag is that directory.
    pub fn build(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("below shared")).expect("an own directory");
        let source = crate::workspace().join("tests/programs").join(source);
        let shared = self.shared().display().to_string();
        let flags = flags.iter().map(|flag| flag.replace("{shared}", &shared));
        let compiler = if source.extension().is_some_and(|e| e == "cpp") { "c++" } else { "cc" };
        let mut command = Command::new(compiler);
        command.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&path).arg(&source).args(flags);
        // Before glibc 2.34 these are libraries of their own.
        command.args(["-Wl,--as-needed", "-ldl", "-lpthread", "-lrt"]);
        let output = command.output().unwrap_or_else(|e| panic!("{compiler} can't be started: {e}"));
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        path
    }

    /// Builds a shared library `name` (`DIR/libx.so`) whose function `x` returns `tag`; further flags link it and set
    /// where it searches for others.
    pub fn library(&self, name: &str, tag: &str, flags: &[&str]) -> PathBuf {
        let file = Path::new(name).file_name().and_then(|f| f.to_str()).expect("a plain name");
        let function = file.trim_start_matches("lib").split('.').next().expect("libNAME.so");
        let defines = [format!("-DNAME={function}"), format!("-DTAG=\"{tag}\""), format!("-Wl,-soname,{file}")];
        let own = ["-shared", "-fPIC", "-Wl,--no-as-needed"];
        let all: Vec<&str> =
            own.into_iter().chain(defines.iter().map(String::as_str)).chain(flags.iter().copied()).collect();
        self.build("library.c", name, &all)
    }
}
