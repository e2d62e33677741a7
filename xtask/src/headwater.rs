//! The command `headwater`.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::roots::{Contents, Root};
use crate::shell::Shell;
use crate::system::{Architecture, System};

/// Debian's newest Rust, whose standard library is packaged for other architectures.
const RUST: Contents = Contents {
    name: "rust",
    suite: "sid",
    architecture: None,
    foreign: Some(Architecture::Aarch64),
    packages: &[
        "cargo",
        "gcc",
        "gcc-aarch64-linux-gnu",
        "libc6-dev",
        "libc6-dev:arm64",
        "libstd-rust-dev:arm64",
        "rustc",
    ],
};
/// Where it builds.
const RUST_TARGET: &str = "target/roots-rust";
/// `RUSTFLAGS` of a static program: one file that starts on any node without a search.
pub const STATIC: &str = "-C target-feature=+crt-static";

/// Builds the command and returns its path.
pub fn build(shell: &Shell) -> Result<PathBuf> {
    match shell.system {
        System::Released(architecture) if Architecture::here()? != architecture => cross(shell, architecture),
        _ => {
            let target = host(shell)?;
            let arguments = arguments(&target);
            let mut command = shell.cargo(&arguments);
            shell.run(command.env("RUSTFLAGS", STATIC))?;
            Ok(shell.path("target").join(target).join("release/headwater"))
        }
    }
}

fn arguments(target: &str) -> [&str; 7] {
    ["build", "--quiet", "--release", "--package", "headwater", "--target", target]
}

/// Builds it for another architecture, with Debian's compilers in a root.
fn cross(shell: &Shell, architecture: Architecture) -> Result<PathBuf> {
    shell.run(&mut shell.cargo(&["fetch", "--quiet", "--locked"]))?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).context("cargo has no directory")?;
    let mut root = Root::of(shell, RUST)?;
    root.shared = vec![shell.root.clone(), home.clone()];
    let (target, compiler) = (architecture.rust_target(), format!("{}-gcc", architecture.triplet()));
    let variable = target.replace('-', "_");
    let mut command = root.command("env", &shell.root);
    command.arg(format!("CARGO_HOME={}", home.display())).arg(format!("RUSTFLAGS={STATIC}"));
    command.arg(format!("CARGO_TARGET_{}_LINKER={compiler}", variable.to_uppercase()));
    command.arg(format!("CC_{variable}={compiler}"));
    let profile = std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PROFILE_"));
    command.args(profile.map(|(name, value)| format!("{name}={value}")));
    command.arg("cargo").args(arguments(&target)).arg("--offline").arg(format!("--target-dir={RUST_TARGET}"));
    shell.run(&mut command)?;
    Ok(shell.path(RUST_TARGET).join(target).join("release/headwater"))
}

/// Returns this machine's target triple. With it, cargo does not apply flags to build scripts and macros.
pub fn host(shell: &Shell) -> Result<String> {
    let version = shell.run(shell.command("rustc").arg("-vV"))?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("`rustc -vV` names no host")?.to_owned())
}
