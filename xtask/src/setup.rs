//! What the machine must have beside a Rust toolchain.

use std::path::Path;

use anyhow::{Result, bail};

use crate::shell::Shell;

/// A Debian package and what it is needed for.
struct Package {
    name: &'static str,
    reason: &'static str,
}

const PACKAGES: &[Package] = &[
    Package { name: "gcc", reason: "the C libraries; AddressSanitizer and UBSan come with it" },
    Package { name: "g++", reason: "libFuzzer, and test programs that throw across libraries" },
    Package { name: "libc6-dev", reason: "headers, and the static libc of the command" },
    Package { name: "python3", reason: "test programs and the demo" },
    Package { name: "python3-venv", reason: "the demo's environment with numpy and scipy" },
    Package { name: "perl", reason: "an interpreter that the tests start" },
    Package { name: "lua5.4", reason: "an interpreter that the tests start" },
    Package { name: "gdb", reason: "tests that original names reach debuggers" },
    Package { name: "strace", reason: "tests and benchmarks that count system calls" },
    Package { name: "fuse3", reason: "the file system of the tests that counts and delays operations" },
];

/// Makes sure that every package is there: as root it installs what is missing, otherwise the error
/// holds the line to run. On systems without dpkg it checks nothing.
pub fn run(shell: &Shell) -> Result<()> {
    if !Path::new("/usr/bin/dpkg-query").exists() {
        println!("  note   not a Debian system; these are needed:");
        for package in PACKAGES {
            println!("           {:<14} {}", package.name, package.reason);
        }
        return Ok(());
    }
    let missing = missing(shell)?;
    if missing.is_empty() {
        return Ok(());
    }
    let install = ["install", "-y", "--no-install-recommends"];
    if !is_root(shell)? {
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

fn missing(shell: &Shell) -> Result<Vec<&'static str>> {
    let mut query = shell.command("dpkg-query");
    query.args(["-W", "-f", "${Package} ${db:Status-Status}\n"]).args(PACKAGES.iter().map(|p| p.name));
    // Its status is 1 if it has never heard of one of them.
    let output = shell.capture(&mut query)?.output;
    Ok(not_installed(&output))
}

fn not_installed(output: &str) -> Vec<&'static str> {
    let installed = |name: &str| output.lines().any(|line| line.split_once(' ') == Some((name, "installed")));
    PACKAGES.iter().map(|p| p.name).filter(|name| !installed(name)).collect()
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
        assert!(not_installed(&all).is_empty());
        let some = all.replace("gdb installed", "gdb config-files").replace("fuse3 installed\n", "");
        assert_eq!(not_installed(&some), ["gdb", "fuse3"]);
    }
}
