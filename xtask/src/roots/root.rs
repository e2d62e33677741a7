//! A root directory of another Debian, and commands in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;

use crate::release::mirror;
use crate::shell::Shell;

/// What test programs are built with, and what they start.
const PACKAGES: &[&str] = &[
    "bindfs",
    "fuse3",
    "g++",
    "gcc",
    "gdb",
    "gfortran",
    "git",
    "iproute2",
    "libc6-dev",
    "libmpich-dev",
    "libopenmpi-dev",
    "lua5.4",
    "mpich",
    "openmpi-bin",
    "openssh-client",
    "perl",
    "procps",
    "python3",
    "python3-dev",
    "python3-numpy",
    "python3-venv",
    "rsync",
    "sqlite3",
    "strace",
    "xz-utils",
];

/// What a root holds when it is complete: the packages that it has.
const COMPLETE: &str = "complete";

/// Makes a directory the root, with devices and processes of its own, and runs a command there. A shell stays as the
/// first process: it reaps what loses its parent.
const ENTER: &str = r#"set -eu
root=$1 shown=$2 directory=$3; shift 3
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
for path in $shown; do
    mkdir -p "$root$path"
    mount --rbind "$path" "$root$path"
    mount -o remount,bind,ro "$root$path"
done
mkdir -p "$root/host" "$root$directory"
cd "$root"
pivot_root . host
umount -l /host
cd "$directory"
"$@"
exit $?"#;

/// A release of Debian, which stands for the systems with its C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// glibc 2.31, as in SLES 15.
    Bullseye,
    /// glibc 2.36.
    Bookworm,
    /// glibc 2.41.
    Trixie,
    /// What is newest.
    Sid,
}

impl Suite {
    /// Debian's name.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no suite is hidden").get_name().to_owned()
    }
}

/// A root directory.
#[derive(Debug)]
pub struct Root<'a> {
    shell: &'a Shell,
    path: PathBuf,
    /// Paths of this machine that are shown in it, read-only.
    pub shown: Vec<PathBuf>,
}

impl Root<'_> {
    /// The root of this suite below `target/roots`, which is made if it isn't there.
    pub fn of(shell: &Shell, suite: Suite) -> Result<Root<'_>> {
        let path = shell.path("target/roots").join(suite.name());
        let root = Root { shell, path, shown: Vec::new() };
        let packages = PACKAGES.join(" ");
        let stamp = root.path.join(COMPLETE);
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == packages) {
            return Ok(root);
        }
        shell.step(&format!("root of {} (once; some minutes)", suite.name()), || root.fill(suite))?;
        std::fs::write(stamp, packages)?;
        Ok(root)
    }

    fn fill(&self, suite: Suite) -> Result<()> {
        let partial = self.path.with_extension("partial");
        if !self.path.exists() {
            if partial.exists() {
                std::fs::remove_dir_all(&partial)?;
            }
            std::fs::create_dir_all(&partial)?;
            // What it mounts goes with the namespace.
            let mut strap = self.shell.command("unshare");
            strap.args(["--mount", "debootstrap", "--variant=minbase", &suite.name()]);
            self.shell.run(strap.arg(&partial).arg(mirror(self.shell)?))?;
            // A mirror's index may be older than it says that it is valid.
            std::fs::write(partial.join("etc/apt/apt.conf.d/valid"), "Acquire::Check-Valid-Until \"false\";\n")?;
            std::fs::rename(&partial, &self.path)?;
        }
        let install = "export DEBIAN_FRONTEND=noninteractive; apt-get -q update && \
            apt-get -qy -o Dpkg::Use-Pty=0 install --no-install-recommends \"$@\" && apt-get clean";
        self.shell.run(self.command("sh", Path::new("/")).args(["-c", install, "sh"]).args(PACKAGES))?;
        Ok(())
    }

    /// The path on this machine of a file in it.
    pub fn outside(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.path.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A command that runs in it, in `directory`, as root with the system's own environment.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>, directory: &Path) -> Command {
        let shown: Vec<_> = self.shown.iter().map(|path| path.display().to_string()).collect();
        let mut command = self.shell.command("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh"]);
        command.arg(&self.path).arg(shown.join(" ")).arg(directory);
        command.args(["env", "-i", "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]);
        command.arg(program);
        command
    }
}
