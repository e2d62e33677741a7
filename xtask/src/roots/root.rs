//! A root directory of another Debian, and commands in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::Shell;
use crate::system::Architecture;

/// What a complete root holds: the list of the packages that were installed.
const COMPLETE: &str = "complete";
/// The search path of programs.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Makes a directory the root, with devices and processes of its own, and runs a command there. A shell stays as the
/// first process: it reaps what loses its parent. `$1`: the root. `$2`: where a copy is mounted that takes the
/// changes, or nothing. `$3`: a line for binfmt_misc, or nothing. `$4` and `$5`: lists of paths that are shown, read-only
/// and writable. `$6`: the working directory. `$7` and `$8`: the numbers of the system calls.
const ENTER: &str = r#"set -eu
root=$1 copy=$2 emulator=$3 shown=$4 shared=$5 directory=$6 pivot_root=$7 umount2=$8; shift 8
if [ "$copy" ]; then
    mkdir -p "$copy"
    mount -t tmpfs tmpfs "$copy"
    mkdir "$copy/upper" "$copy/work" "$copy/root"
    mount -t overlay overlay -o "lowerdir=$root,upperdir=$copy/upper,workdir=$copy/work" "$copy/root"
    root=$copy/root
else
    mount --bind "$root" "$root"
fi
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
IFS='
'
for path in $shown $shared; do
    mkdir -p "$root$path"
    mount --rbind "$path" "$root$path"
done
for path in $shown; do
    mount -o remount,bind,ro "$root$path"
done
if [ "$emulator" ]; then
    mount -t binfmt_misc binfmt_misc "$root/proc/sys/fs/binfmt_misc"
    echo "$emulator" > "$root/proc/sys/fs/binfmt_misc/register"
fi
mkdir -p "$root$directory"
cd "$root"
# pivot_root over itself, and umount2 of what was the root: a chroot would prevent user namespaces, and once the root is
# another architecture's, no program of this machine can be started.
exec perl -e '
    my ($pivot_root, $umount2, $dot) = (0 + shift, 0 + shift, ".");
    syscall($pivot_root, $dot, $dot) == 0 && syscall($umount2, $dot, 2) == 0 && chdir "/" or die "the root: $!\n";
    exec "sh", "-c", q(cd "$1"; shift; "$@"; exit $?), "sh", @ARGV or die "sh: $!\n"' "$pivot_root" "$umount2" "$directory" "$@""#;

/// Runs a command in a user namespace with the same users, which has a binfmt_misc of its own: this machine's stays as
/// it is.
const IN_USER_NAMESPACE: &str = r#"
# unshare ignores it; timeout sends KILL soon afterwards.
trap : TERM
unshare --user sh -c 'until [ "$(cat /proc/self/gid_map)" ]; do sleep 0.01; done; exec "$@"' sh "$@" &
child=$!
until [ "$(readlink /proc/$child/ns/user)" != "$(readlink /proc/$$/ns/user)" ]; do sleep 0.01; done
for map in uid_map gid_map; do echo "0 0 65536" > /proc/$child/$map; done
while :; do
    wait "$child"
    status=$?
    kill -0 "$child" 2> /dev/null || exit "$status"
done"#;

/// Registers qemu at the kernel's binfmt_misc for programs of aarch64: the beginning of such an ELF file, the bits of
/// it that count, and the emulator, which the kernel opens at once (F) and passes the program's own name (P).
const EMULATOR: &str = r":qemu-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:FPO";

/// Runs a command without Headwater's mounts, which a copy of the mount namespace keeps alive: tests that run meanwhile
/// wait for the end of theirs.
const WITHOUT_MOUNTS_OF_TESTS: &str = "umount --all --lazy --types fuse.headwater; exec \"$@\"";

/// What a root is made of.
#[derive(Clone, Copy, Debug)]
pub struct Contents {
    /// The directory below `target/roots`.
    pub name: &'static str,
    /// The release of Debian.
    pub suite: &'static str,
    /// The architecture of its programs. Another one than this machine's is emulated.
    pub architecture: Option<Architecture>,
    /// Another architecture that packages may be of.
    pub foreign: Option<Architecture>,
    /// Packages, beside the smallest system. An emulated system has none: its packages are unpacked and not set up,
    /// which would take a quarter of an hour.
    pub packages: &'static [&'static str],
}

/// A root directory.
#[derive(Debug)]
pub struct Root<'a> {
    shell: &'a Shell,
    contents: Contents,
    path: PathBuf,
    /// Paths of this machine that are shown in it, read-only.
    pub shown: Vec<PathBuf>,
    /// Paths of this machine that it may change.
    pub shared: Vec<PathBuf>,
    /// What a command changes is gone when it ends.
    pub is_unchanging: bool,
}

impl Root<'_> {
    /// The root, which is made if it isn't there.
    pub fn of(shell: &Shell, contents: Contents) -> Result<Root<'_>> {
        let path = shell.path("target/roots").join(contents.name);
        let root = Root { shell, contents, path, shown: Vec::new(), shared: Vec::new(), is_unchanging: false };
        let packages = contents.packages.join(" ");
        let stamp = root.path.join(COMPLETE);
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == packages) {
            return Ok(root);
        }
        shell.step(&format!("root of {} (once; some minutes)", contents.name), || root.fill())?;
        std::fs::write(stamp, packages)?;
        Ok(root)
    }

    fn fill(&self) -> Result<()> {
        if !self.path.exists() {
            self.strap()?;
        }
        if self.emulated().is_some() {
            return Ok(());
        }
        let foreign = self
            .contents
            .foreign
            .map_or("true".to_owned(), |foreign| format!("dpkg --add-architecture {}", foreign.debian()));
        let install = format!(
            "export DEBIAN_FRONTEND=noninteractive; {foreign} && dpkg --configure -a && apt-get -q update && \
             apt-get -qy -o Dpkg::Use-Pty=0 install --no-install-recommends \"$@\" && apt-get clean"
        );
        let mut command = self.command("sh", Path::new("/"));
        self.shell.run(command.args(["-c", &install, "sh"]).args(self.contents.packages))?;
        Ok(())
    }

    /// Makes the smallest system.
    fn strap(&self) -> Result<()> {
        let partial =
            Root { path: self.path.with_extension("partial"), shown: Vec::new(), shared: Vec::new(), ..*self };
        if partial.path.exists() {
            std::fs::remove_dir_all(&partial.path)?;
        }
        std::fs::create_dir_all(&partial.path)?;
        // What debootstrap mounts goes with the namespace.
        let mut strap = self.shell.command("unshare");
        strap.args(["--mount", "sh", "-c", WITHOUT_MOUNTS_OF_TESTS, "sh", "debootstrap", "--variant=minbase"]);
        if let Some(architecture) = self.emulated() {
            strap.arg("--foreign").arg(format!("--arch={}", architecture.debian()));
        }
        self.shell.run(strap.arg(self.contents.suite).arg(&partial.path).arg(mirror(self.shell)?))?;
        // In a first stage it leads to this machine's.
        let processes = partial.path.join("proc");
        if processes.is_symlink() {
            std::fs::remove_file(&processes)?;
            std::fs::create_dir(&processes)?;
        }
        std::fs::write(partial.path.join("etc/hosts"), "127.0.0.1 localhost\n::1 localhost\n")?;
        // A machine's own start makes it, and fusermount3 locks it.
        let mounts = partial.path.join("etc/mtab");
        if !mounts.is_symlink() {
            std::os::unix::fs::symlink("/proc/self/mounts", mounts)?;
        }
        // A mirror's index may be past the date until which it states that it is valid.
        let options = partial.path.join("etc/apt/apt.conf.d/valid");
        std::fs::write(options, "Acquire::Check-Valid-Until \"false\";\n")?;
        std::fs::rename(&partial.path, &self.path).context("a root that is complete")
    }

    /// The architecture, if it isn't this machine's.
    fn emulated(&self) -> Option<Architecture> {
        self.contents.architecture.filter(|architecture| Architecture::here().ok() != Some(*architecture))
    }

    /// The path on this machine of a file in it.
    pub fn outside(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.path.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A command that runs in it, in `directory`, as root with the system's own environment.
    pub fn command(&self, program: impl AsRef<OsStr>, directory: &Path) -> Command {
        let words =
            |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("\n");
        let mut command = self.shell.command("sh");
        command.args(["-c", if self.emulated().is_some() { IN_USER_NAMESPACE } else { "exec \"$@\"" }, "sh"]);
        command
            .args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh"])
            .arg(&self.path);
        command.arg(if self.is_unchanging { self.path.with_extension("copy") } else { PathBuf::new() });
        command.arg(self.emulated().map_or("", |_| EMULATOR));
        command.arg(words(&self.shown)).arg(words(&self.shared)).arg(directory);
        command.args(if cfg!(target_arch = "aarch64") { ["41", "39"] } else { ["155", "166"] });
        command.args(["env", "-i", "HOME=/root", PATH]).arg(program);
        command
    }
}

/// The address of the Debian archive that this machine uses.
///
/// # Errors
/// It uses none, as another distribution.
pub fn mirror(shell: &Shell) -> Result<String> {
    let format = "$(REPO_URI) $(LABEL)";
    let mut list = shell.command("apt-get");
    let text = shell.run(list.args(["indextargets", "--format", format, "Created-By: Packages"]))?;
    let found = text.lines().find_map(|line| line.strip_suffix(" Debian"));
    Ok(found.context("apt has no source of Debian's: this needs a Debian")?.to_owned())
}
