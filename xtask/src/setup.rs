//! The packages that the machine must have beside a Rust toolchain: all of them, or those of the demonstration.

use std::path::Path;

use anyhow::{Result, bail};

use crate::shell::Shell;

/// A Debian package and its purpose.
struct Package {
    name: &'static str,
    reason: &'static str,
    /// A command that serves as well, from wherever it is installed.
    command: Option<&'static str>,
    /// Without it something is not built or tested; only root installs it.
    is_optional: bool,
    /// The demonstration needs it.
    is_for_demo: bool,
}

/// What is to be done on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Everything that `cargo xtask` does.
    All,
    /// The demonstration alone.
    Demo,
}

impl Package {
    const fn new(name: &'static str, reason: &'static str) -> Package {
        Package { name, reason, command: None, is_optional: false, is_for_demo: false }
    }

    const fn optional(name: &'static str, reason: &'static str) -> Package {
        Package { is_optional: true, ..Package::new(name, reason) }
    }

    const fn of(command: &'static str, name: &'static str, reason: &'static str) -> Package {
        Package { command: Some(command), ..Package::new(name, reason) }
    }

    const fn demo(self) -> Package {
        Package { is_for_demo: true, ..self }
    }

    fn serves(&self, purpose: Purpose) -> bool {
        purpose == Purpose::All || self.is_for_demo
    }
}

const PACKAGES: &[Package] = &[
    Package::of("gcc", "gcc", "the C libraries; it contains AddressSanitizer and UBSan").demo(),
    Package::new("g++", "libFuzzer, and test programs that throw across libraries"),
    Package::optional("clang-format", "the layout of C, which `cargo xtask tidy` checks"),
    Package::new("libc6-dev", "headers, and the static libc of the command").demo(),
    #[cfg(target_arch = "x86_64")]
    Package::optional("libc6-dev-i386", "test programs of the processor's 32-bit mode"),
    Package::of("python3", "python3", "test programs and the demo").demo(),
    Package::new("python3-dev", "extension modules that tests and benchmarks build"),
    Package::new("python3-venv", "the environment with numpy and scipy of tests and benchmarks"),
    Package::new("perl", "an interpreter that the tests start"),
    Package::new("lua5.4", "an interpreter that the tests start"),
    Package::new("gdb", "tests that original names reach debuggers"),
    Package::new("strace", "tests and benchmarks that count system calls"),
    Package::of("git", "git", "a program that the tests start"),
    Package::of("go", "golang-go", "statically linked test programs with a runtime of their own"),
    Package::of("javac", "default-jdk-headless", "an interpreter that the tests start"),
    Package::of("node", "nodejs", "an interpreter that the tests start"),
    Package::of("rsync", "rsync", "a program that the tests start"),
    Package::of("sqlite3", "sqlite3", "a program that the tests start"),
    Package::of("systemd-analyze", "systemd", "tests that systemd understands the units"),
    Package::new("iproute2", "the links of `cargo xtask cluster` and of the tests of several nodes"),
    Package::of("ssh", "openssh-client", "tests of launchers"),
    Package::new("openssh-server", "tests of launchers that reach nodes by ssh"),
    Package::of("munged", "munge", "tests with Slurm"),
    Package::of("slurmctld", "slurmctld", "tests with Slurm"),
    Package::of("slurmd", "slurmd", "tests with Slurm"),
    Package::of("srun", "slurm-client", "tests with Slurm"),
    Package::of("mpirun.openmpi", "openmpi-bin", "tests of launchers"),
    Package::optional("libopenmpi-dev", "the I/O library's variant for the Open MPI that it is of"),
    Package::optional("mpich", "tests of the I/O library with MPICH 4"),
    Package::optional("libmpich-dev", "the I/O library's variant for MPICH 4"),
    Package::optional("gfortran", "tests of the I/O library with programs in Fortran"),
    Package::optional("python3-pip", "the I/O library's variants for Open MPI 5 and MPICH 5, from PyPI"),
    Package::new("parallel", "a launcher whose processes tests relay"),
    Package::optional("bubblewrap", "tests of programs in containers"),
    Package::optional("charliecloud", "the same; it mounts SquashFS files itself"),
    Package::optional("squashfs-tools", "images of these tests"),
    Package::optional("musl-tools", "a program of these tests, of another C library"),
    Package::optional("bindfs", "tests of the I/O library on a file system that others may share"),
    Package::optional("glusterfs-server", "the storm benchmark's file system, which counts"),
    Package::optional("glusterfs-client", "the same on nodes"),
    Package::optional("libslurm-dev", "the headers of the Slurm plugin"),
    Package::optional("libfabric-dev", "the carrier of links over libfabric"),
    Package::optional("rpm", "the package of a release for RHEL and SLES"),
    Package::optional("python3-wheel", "the wheel of a release"),
    Package::optional("libpython3.11-testsuite", "a test suite that is run by Headwater"),
    Package::optional("stress-ng", "the same"),
    Package::optional("debootstrap", "roots of other systems, in which the release is tested"),
    Package::optional("gcc-aarch64-linux-gnu", "the C libraries of the release for aarch64"),
    Package::optional("qemu-user-static", "a session on processors of aarch64, emulated"),
    Package::optional("dpkg-dev", "source packages with test suites"),
    Package::optional("python3-mpi4py", "a module of which the tests are run by Headwater"),
    Package::optional("python3-numpy", "the same"),
    Package::of("fusermount3", "fuse3", "the file system that counts and delays operations").demo(),
];

/// Makes sure that every package for `purpose` is there: as root it installs what is missing, otherwise the error has
/// the line to run. On systems without dpkg it names those of which no command is found.
pub fn run(shell: &Shell, purpose: Purpose) -> Result<()> {
    if !Path::new("/usr/bin/dpkg-query").exists() {
        let missing = not_installed("", purpose, true, &is_on_path);
        if !missing.is_empty() {
            println!("  note   not a Debian system; these are not found, or can't be checked:");
        }
        for package in missing {
            println!("           {:<14} {}", package.name, package.reason);
        }
        return Ok(());
    }
    let is_root = is_root(shell)?;
    let missing = missing(shell, purpose, is_root)?;
    if missing.is_empty() {
        return Ok(());
    }
    let install = ["install", "-y", "--no-install-recommends"];
    if !is_root {
        bail!(
            "Debian packages are missing; run\n  sudo apt-get update && sudo apt-get {} {}\nand then repeat this command",
            install.join(" "),
            missing.join(" ")
        );
    }
    shell.step(&format!("install {}", missing.join(" ")), || {
        let apt = || {
            let mut apt = shell.command("apt-get");
            apt.env("DEBIAN_FRONTEND", "noninteractive");
            apt
        };
        shell.run(apt().args(["update", "-q"]))?;
        shell.run(apt().args(install).args(&missing))
    })?;
    Ok(())
}

fn missing(shell: &Shell, purpose: Purpose, with_optional: bool) -> Result<Vec<&'static str>> {
    let mut query = shell.command("dpkg-query");
    query.args(["-W", "-f", "${Package} ${db:Status-Status}\n"]).args(PACKAGES.iter().map(|p| p.name));
    // Its status is 1 if its database lacks one of them.
    let output = shell.capture(&mut query)?.output;
    Ok(not_installed(&output, purpose, with_optional, &is_on_path).iter().map(|package| package.name).collect())
}

/// The packages for `purpose` that are neither installed, as dpkg's `output` shows, nor replaced by a command.
fn not_installed(
    output: &str,
    purpose: Purpose,
    with_optional: bool,
    has_command: &dyn Fn(&str) -> bool,
) -> Vec<&'static Package> {
    let installed = |name: &str| output.lines().any(|line| line.split_once(' ') == Some((name, "installed")));
    let is_there = |package: &Package| installed(package.name) || package.command.is_some_and(has_command);
    let is_wanted =
        |package: &&Package| package.serves(purpose) && (with_optional || !package.is_optional) && !is_there(package);
    PACKAGES.iter().filter(is_wanted).collect()
}

fn is_on_path(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(command).exists())
}

fn is_root(shell: &Shell) -> Result<bool> {
    Ok(shell.run(shell.command("id").arg("-u"))?.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, purpose: Purpose, with_optional: bool, command: &str, expected: &[&str]) {
        let missing = not_installed(output, purpose, with_optional, &|name| name == command);
        assert_eq!(missing.iter().map(|package| package.name).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_not_reported_as_installed_is_missing() {
        let all: String = PACKAGES.iter().map(|p| format!("{} installed\n", p.name)).collect();
        check(&all, Purpose::All, true, "", &[]);
        let some = all.replace("gdb installed", "gdb config-files").replace("fuse3 installed\n", "");
        check(&some, Purpose::All, true, "", &["gdb", "fuse3"]);
        check(&some, Purpose::Demo, true, "", &["fuse3"]);
        let some = all.replace("libslurm-dev installed", "");
        check(&some, Purpose::All, true, "", &["libslurm-dev"]);
        check(&some, Purpose::All, false, "", &[]);
        let some = all.replace("golang-go installed", "").replace("nodejs installed", "");
        check(&some, Purpose::All, true, "go", &["nodejs"]);
    }

    #[test]
    fn the_demonstration_asks_for_little() {
        check("", Purpose::Demo, true, "python3", &["gcc", "libc6-dev", "fuse3"]);
    }
}
