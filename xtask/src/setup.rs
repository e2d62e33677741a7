//! The packages that the machine must have beside a Rust toolchain.

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
}

impl Package {
    const fn new(name: &'static str, reason: &'static str) -> Package {
        Package { name, reason, command: None, is_optional: false }
    }

    const fn optional(name: &'static str, reason: &'static str) -> Package {
        Package { name, reason, command: None, is_optional: true }
    }

    const fn of(command: &'static str, name: &'static str, reason: &'static str) -> Package {
        Package { name, reason, command: Some(command), is_optional: false }
    }
}

const PACKAGES: &[Package] = &[
    Package::new("gcc", "the C libraries; it contains AddressSanitizer and UBSan"),
    Package::new("g++", "libFuzzer, and test programs that throw across libraries"),
    Package::optional("clang-format", "the layout of C, which `cargo xtask tidy` checks"),
    Package::new("libc6-dev", "headers, and the static libc of the command"),
    #[cfg(target_arch = "x86_64")]
    Package::optional("libc6-dev-i386", "test programs of the processor's 32-bit mode"),
    Package::new("python3", "test programs and the demo"),
    Package::new("python3-dev", "extension modules that tests and benchmarks build"),
    Package::new("python3-venv", "the demo's environment with numpy and scipy"),
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
    Package::optional("libopenmpi-dev", "the I/O library's variant for Open MPI 4"),
    Package::optional("mpich", "tests of the I/O library with MPICH 4"),
    Package::optional("libmpich-dev", "the I/O library's variant for MPICH 4"),
    Package::optional("gfortran", "tests of the I/O library with programs in Fortran"),
    Package::optional("python3-pip", "the I/O library's variants for Open MPI 5 and MPICH 5, from PyPI"),
    Package::new("parallel", "a launcher whose processes tests relay"),
    Package::optional("bindfs", "tests of the I/O library on a file system that others may share"),
    Package::optional("glusterfs-server", "the storm benchmark's file system, which counts"),
    Package::optional("glusterfs-client", "the same on nodes"),
    Package::optional("libslurm-dev", "the headers of the Slurm plugin"),
    Package::optional("libfabric-dev", "the carrier of links over libfabric"),
    Package::optional("libpython3.11-testsuite", "a test suite that is run by Headwater"),
    Package::optional("stress-ng", "the same"),
    Package::optional("debootstrap", "roots of other systems, in which the release is tested"),
    Package::optional("dpkg-dev", "source packages with test suites"),
    Package::optional("python3-mpi4py", "a module of which the tests are run by Headwater"),
    Package::optional("python3-numpy", "the same"),
    Package::new("fuse3", "the file system of the tests that counts and delays operations"),
];

/// Makes sure that every package is there: as root it installs what is missing, otherwise the error has the line to
/// run. On systems without dpkg it checks nothing.
pub fn run(shell: &Shell) -> Result<()> {
    if !Path::new("/usr/bin/dpkg-query").exists() {
        println!("  note   not a Debian system; these are needed:");
        for package in PACKAGES {
            println!("           {:<14} {}", package.name, package.reason);
        }
        return Ok(());
    }
    let is_root = is_root(shell)?;
    let missing = missing(shell, is_root)?;
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

fn missing(shell: &Shell, with_optional: bool) -> Result<Vec<&'static str>> {
    let mut query = shell.command("dpkg-query");
    query.args(["-W", "-f", "${Package} ${db:Status-Status}\n"]).args(PACKAGES.iter().map(|p| p.name));
    // Its status is 1 if its database lacks one of them.
    let output = shell.capture(&mut query)?.output;
    Ok(not_installed(&output, with_optional, &is_on_path))
}

fn not_installed(output: &str, with_optional: bool, has_command: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    let installed = |name: &str| output.lines().any(|line| line.split_once(' ') == Some((name, "installed")));
    let is_there = |package: &Package| installed(package.name) || package.command.is_some_and(has_command);
    let is_wanted = |package: &&Package| (with_optional || !package.is_optional) && !is_there(package);
    PACKAGES.iter().filter(is_wanted).map(|package| package.name).collect()
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

    #[test]
    fn what_is_not_reported_as_installed_is_missing() {
        let all: String = PACKAGES.iter().map(|p| format!("{} installed\n", p.name)).collect();
        assert!(not_installed(&all, true, &|_| false).is_empty());
        let some = all.replace("gdb installed", "gdb config-files").replace("fuse3 installed\n", "");
        assert_eq!(not_installed(&some, true, &|_| false), ["gdb", "fuse3"]);
        let some = all.replace("libslurm-dev installed", "");
        assert_eq!(not_installed(&some, true, &|_| false), ["libslurm-dev"]);
        assert!(not_installed(&some, false, &|_| false).is_empty());
        let some = all.replace("golang-go installed", "").replace("nodejs installed", "");
        assert_eq!(not_installed(&some, true, &|command| command == "go"), ["nodejs"]);
    }
}
