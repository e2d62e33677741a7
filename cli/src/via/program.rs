//! Properties of a program that decide on its mechanism.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use headwater_closure::{elf, program};
use serde::{Deserialize, Serialize};

/// Limit of nested `#!` lines, as in the kernel.
const SCRIPTS_MAX: usize = 4;
/// Bytes of an executable that are read: its headers, and the name of its loader.
const PREFIX_BYTES: usize = 4096;

/// Programs whose processes are started by a running daemon, hence outside of this program's namespaces. Variables
/// mostly reach them.
const STARTS_OUTSIDE: &[&str] = &[
    "srun",
    "sbatch",
    "salloc",
    "flux",
    "jsrun",
    "bsub",
    "qsub",
    "aprun",
    "prun",
    "docker",
    "kubectl",
    "systemd-run",
    "at",
    "batch",
];
/// Programs that may use `ssh`. In a user namespace root's files belong to `nobody`, and `ssh` refuses those of its
/// system-wide configuration.
const USES_SSH: &[&str] = &[
    "ssh",
    "scp",
    "sftp",
    "sshfs",
    "rsync",
    "git",
    "svn",
    "pdsh",
    "clush",
    "parallel",
    "ansible",
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "mpirun_rsh",
    "orterun",
    "prterun",
    "prte",
    "charmrun",
    "horovodrun",
];
/// Programs that do their work through set-ID helpers; those that mount use `fusermount3`.
const USES_SET_ID: &[&str] = &[
    "podman",
    "buildah",
    "singularity",
    "apptainer",
    "crontab",
    "fusermount3",
    "archivemount",
    "bindfs",
    "fuse-overlayfs",
    "fuse2fs",
    "gocryptfs",
    "squashfuse",
    "squashfuse_ll",
];
/// Programs that pretend to change owners, and expect that the kernel refuses with `EPERM`. In a user namespace it
/// refuses owners that it doesn't know there with `EINVAL`.
const CHANGES_OWNERS: &[&str] = &["fakeroot", "dpkg-buildpackage", "debuild", "makepkg"];
/// Programs of `USES_SET_ID` that need none where this file, relative to their own directory, is not set-ID.
const HELPERS: &[(&str, &str)] = &[
    ("apptainer", "../libexec/apptainer/bin/starter-suid"),
    ("singularity", "../libexec/apptainer/bin/starter-suid"),
    ("singularity", "../libexec/singularity/bin/starter-suid"),
];
/// Programs that start others under another root directory, or in other mounts. There the audit library may be
/// missing, and the session's paths may lead to other files.
const ENTERS_CONTAINER: &[&str] = &[
    "apptainer",
    "arch-chroot",
    "buildah",
    "bwrap",
    "ch-run",
    "chroot",
    "crun",
    "distrobox",
    "enroot",
    "firejail",
    "nsenter",
    "podman",
    "podman-hpc",
    "proot",
    "runc",
    "sarus",
    "shifter",
    "singularity",
    "systemd-nspawn",
    "toolbox",
    "udocker",
    "unshare",
];

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its names: of the command, and of the file.
    names: Vec<String>,
    /// Whether it was installed without its set-ID helper.
    lacks_helper: bool,
    /// The privilege that executing the file gives.
    privilege: Option<Cow<'static, str>>,
    /// Whether it lies in the scope.
    is_in_scope: bool,
    /// Whether this user may not read it.
    is_unreadable: bool,
    /// Why the audit library can't be loaded into it.
    not_audited: Option<Cow<'static, str>>,
}

impl Program {
    /// Examines the program `file`, an absolute path that may have links. `open` opens a file for reading.
    pub fn examine(file: &Path, is_in_scope: bool, open: &dyn Fn(&Path) -> io::Result<File>) -> Program {
        let canonical = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
        let mut names: Vec<String> = [file, &canonical].into_iter().filter_map(name).collect();
        names.dedup();
        let is_unreadable = open(&canonical).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        let not_audited = loader(canonical.clone(), open).map(Cow::Borrowed);
        let privilege = privilege(&canonical).map(Cow::Borrowed);
        let lacks_helper = lacks_helper(&names, &canonical);
        Program { names, lacks_helper, privilege, is_in_scope, is_unreadable, not_audited }
    }

    /// Returns why it should not run in any namespace.
    pub fn not_in_any_namespace(&self) -> Option<String> {
        if let Some(name) = self.is_one_of(STARTS_OUTSIDE) {
            return Some(format!("{name} starts its processes outside of this program's namespaces"));
        }
        if self.is_in_scope && self.is_unreadable {
            return Some(format!("{} may be executed but not read, so a mount can't show it", self.name()));
        }
        let privilege = self.privilege.as_deref().filter(|_| self.is_in_scope)?;
        Some(format!("{} is {privilege}, and gains nothing from a mount", self.name()))
    }

    /// Returns why it should not run in a user namespace.
    pub fn not_in_a_user_namespace(&self) -> Option<String> {
        if let Some(name) = self.is_one_of(USES_SSH) {
            return Some(format!(
                "{name} may use ssh, which refuses its system-wide configuration in a user namespace"
            ));
        }
        if let Some(name) = self.is_one_of(USES_SET_ID).filter(|_| !self.lacks_helper) {
            return Some(format!("{name} uses set-ID programs, which gain nothing in a user namespace"));
        }
        if let Some(name) = self.is_one_of(CHANGES_OWNERS) {
            return Some(format!("{name} changes owners, which a user namespace doesn't know"));
        }
        Some(format!("{} is {}, and gains nothing in a user namespace", self.name(), self.privilege.as_deref()?))
    }

    /// Returns whether its work is to start other programs, on this machine or elsewhere.
    pub fn starts_others(&self) -> bool {
        [STARTS_OUTSIDE, USES_SSH, USES_SET_ID, ENTERS_CONTAINER].iter().any(|list| self.is_one_of(list).is_some())
    }

    /// Returns why the audit library serves nothing of what it starts, if so.
    pub fn starts_unaudited(&self) -> Option<String> {
        Some(format!("audit doesn't reach into what {} starts", self.is_one_of(ENTERS_CONTAINER)?))
    }

    /// Returns why the audit library can't be loaded into it, if so.
    pub fn not_audited(&self) -> Option<String> {
        let because = self.not_audited.as_deref().or(self.privilege.as_deref())?;
        Some(format!("{} is {because}", self.name()))
    }

    fn is_one_of(&self, list: &[&str]) -> Option<&str> {
        self.names.iter().map(String::as_str).find(|name| list.contains(name))
    }

    fn name(&self) -> &str {
        self.names.first().map_or("the program", |name| name)
    }
}

/// Returns whether what a program of this name starts runs in a container, under another root directory, or in other
/// mounts.
pub fn enters_container(file: &Path) -> bool {
    file.file_name().is_some_and(|name| ENTERS_CONTAINER.iter().any(|program| name == *program))
}

/// Returns the first of a script's words that is a program that works through set-ID helpers.
pub fn set_id_user_in(script: &str) -> Option<&'static str> {
    let lines = script.lines().filter(|line| !line.trim_start().starts_with('#'));
    let words = lines.flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))));
    words.into_iter().find_map(|word| USES_SET_ID.iter().copied().find(|program| word == *program))
}

/// Returns whether a program of these names has a set-ID helper in some installations, and not in this one.
fn lacks_helper(names: &[String], file: &Path) -> bool {
    let mut helpers = HELPERS.iter().filter(|(program, _)| names.iter().any(|name| name == program)).peekable();
    let directory = file.parent().unwrap_or(file);
    helpers.peek().is_some() && helpers.all(|(_, helper)| privilege(&directory.join(helper)).is_none())
}

/// Returns the privilege that executing a file adds to the caller's rights.
fn privilege(file: &Path) -> Option<&'static str> {
    let mode = file.metadata().ok()?.mode();
    let has_capabilities = || rustix::fs::getxattr(file, "security.capability", &mut [0; 64]).is_ok();
    match mode {
        _ if mode & 0o4000 != 0 => Some("set-user-ID"),
        _ if mode & 0o2010 == 0o2010 => Some("set-group-ID"),
        _ if has_capabilities() => Some("given capabilities"),
        _ => None,
    }
}

/// Returns why glibc's loader does not start a program or its interpreter, if so.
fn loader(mut file: PathBuf, open: &dyn Fn(&Path) -> io::Result<File>) -> Option<&'static str> {
    for _ in 0..=SCRIPTS_MAX {
        let opened = open(&file).ok()?;
        let mut prefix = vec![0; PREFIX_BYTES];
        let bytes = opened.read_at(&mut prefix, 0).ok()?;
        prefix.truncate(bytes);
        if let Some(arguments) = program::script_arguments(&prefix) {
            file = interpreter(&arguments)?.canonicalize().ok()?;
            continue;
        }
        let object = elf::inspect(&prefix, opened.metadata().ok()?.len())?;
        let is_loader = file.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"ld"));
        return match object {
            _ if prefix.windows(8).any(|w| w == b"/ld-musl") => Some("linked with musl"),
            _ if !object.native => Some("for another architecture"),
            _ if !object.has_interpreter && !is_loader => Some("statically linked"),
            _ => None,
        };
    }
    None
}

/// Returns the interpreter of a `#!` line, also behind `env`.
fn interpreter(arguments: &[OsString]) -> Option<PathBuf> {
    match program::behind_env(arguments) {
        Some(named) => program::find(named, std::env::var_os("PATH").as_deref(), Path::new("/")).ok(),
        None => arguments.first().map(PathBuf::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    impl Program {
        pub fn named(name: &str) -> Program {
            Program { names: vec![name.into()], ..Program::default() }
        }

        pub fn static_named(name: &str) -> Program {
            Program { not_audited: Some("statically linked".into()), ..Program::named(name) }
        }

        pub fn set_id_named(name: &str) -> Program {
            Program { privilege: Some("set-user-ID".into()), ..Program::named(name) }
        }
    }

    #[test]
    fn a_helper_is_looked_for() {
        let directory = tempfile::tempdir().unwrap();
        let (program, helper) =
            (directory.path().join("bin/apptainer"), directory.path().join("libexec/apptainer/bin/starter-suid"));
        for file in [&program, &helper] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::copy("/bin/true", file).unwrap();
        }
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(examine(&program).not_in_a_user_namespace().unwrap().contains("set-ID"));
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(examine(&program).not_in_a_user_namespace(), None);
        fs::remove_file(&helper).unwrap();
        assert_eq!(examine(&program).not_in_a_user_namespace(), None);
    }

    fn examine(file: &Path) -> Program {
        Program::examine(file, false, &|path| File::open(path))
    }

    #[test]
    fn scripts_are_what_interprets_them() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        assert_eq!(examine(Path::new("/bin/sh")).not_audited, None);
        assert_eq!(examine(&write("a", "#!/bin/sh -e\n")).not_audited, None);
        assert_eq!(examine(&write("b", "#!/usr/bin/env -S A=1 sh\n")).not_audited, None);
        assert_eq!(examine(&write("c", "no program")).not_audited, None);
        let own = directory.path().join("d");
        fs::write(directory.path().join("d.c"), "int main(void) { return 0; }\n").unwrap();
        let mut compiler = std::process::Command::new("cc");
        compiler.args(["-static", "-o"]).arg(&own).arg(directory.path().join("d.c"));
        assert!(compiler.status().unwrap().success());
        assert_eq!(examine(&own).not_audited.as_deref(), Some("statically linked"));
        let script = write("e", &format!("#!{}\n", own.display()));
        assert_eq!(examine(&script).not_audited().as_deref(), Some("e is statically linked"));
    }

    #[test]
    fn what_can_not_be_read_is_not_mounted() {
        let refuse = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
        let program = |is_in_scope| Program::examine(Path::new("/bin/true"), is_in_scope, &refuse);
        assert!(program(true).not_in_any_namespace().unwrap().contains("not read"));
        assert_eq!(program(false).not_in_any_namespace(), None);
        assert_eq!(
            Program::examine(Path::new("/bin/true"), true, &|path| File::open(path)).not_in_any_namespace(),
            None
        );
    }

    #[test]
    fn a_set_id_bit_and_a_links_name_count() {
        let directory = tempfile::tempdir().unwrap();
        let (tool, link) = (directory.path().join("tool"), directory.path().join("mpirun"));
        fs::copy("/bin/true", &tool).unwrap();
        std::os::unix::fs::symlink(&tool, &link).unwrap();
        assert!(examine(&link).not_in_a_user_namespace().unwrap().contains("mpirun may use ssh"));
        assert_eq!(examine(&tool).not_in_a_user_namespace(), None);
        for (mode, expected) in [(0o4755, Some("set-user-ID")), (0o2755, Some("set-group-ID")), (0o2745, None)] {
            fs::set_permissions(&tool, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(examine(&tool).privilege.as_deref(), expected, "{mode:o}");
        }
    }
}
