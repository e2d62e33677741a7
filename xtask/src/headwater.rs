//! The command `headwater`.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::roots::{Contents, Root};
use crate::shell::Shell;
use crate::system::{Architecture, SOURCES, System};

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
/// What is built as the command.
const PACKAGE: [&str; 2] = ["--package", "headwater"];
/// Where it builds.
const RUST_TARGET: &str = "target/roots-rust";
/// `RUSTFLAGS` of a static program: one file that starts on any node without a search.
pub const STATIC: &str = "-C target-feature=+crt-static";
/// Separates flags in the variable of which cargo takes them where blanks may be in one.
const SEPARATOR: &str = "\x1f";

/// Builds the command and returns its path.
pub fn build(shell: &Shell) -> Result<PathBuf> {
    if let System::Released(architecture) = shell.system
        && let Some(root) = root(shell, architecture)?
    {
        return Ok(cross(shell, architecture, root, &PACKAGE)?.join("headwater"));
    }
    let target = host(shell)?;
    let mut command = shell.cargo(&arguments(&target));
    shell.run(command.args(PACKAGE).envs(flags(shell, &target)?))?;
    Ok(shell.path("target").join(target).join("release/headwater"))
}

/// Builds an example of a package for another architecture than this machine's.
pub fn cross_example(shell: &Shell, architecture: Architecture, package: &str, name: &str) -> Result<PathBuf> {
    let root = root(shell, architecture)?.context("it is this machine's architecture")?;
    Ok(cross(shell, architecture, root, &["--package", package, "--example", name])?.join("examples").join(name))
}

fn arguments(target: &str) -> [&str; 5] {
    ["build", "--quiet", "--release", "--target", target]
}

/// Variables with the compilers' flags. They are the same for a release and for this machine, so that one build is both.
fn flags(shell: &Shell, target: &str) -> Result<[(String, String); 2]> {
    let renamed = renamed(shell)?;
    let of_rust = renamed.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    let of_rust: Vec<_> = STATIC.split(' ').map(str::to_owned).chain(of_rust).collect();
    let of_c = renamed.iter().map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()));
    Ok([
        ("CARGO_ENCODED_RUSTFLAGS".into(), of_rust.join(SEPARATOR)),
        (format!("CFLAGS_{}", target.replace('-', "_")), of_c.collect::<Vec<_>>().join(" ")),
    ])
}

/// The root in which the command is built for this architecture; none for this machine's.
pub fn root(shell: &Shell, architecture: Architecture) -> Result<Option<Root<'_>>> {
    if Architecture::here()? == architecture {
        return Ok(None);
    }
    Root::of(shell, RUST).map(Some)
}

/// Builds `what` for another architecture, with Debian's compilers in a root. Returns the directory where it is.
fn cross(shell: &Shell, architecture: Architecture, mut root: Root<'_>, what: &[&str]) -> Result<PathBuf> {
    shell.run(&mut shell.cargo(&["fetch", "--quiet", "--locked"]))?;
    let home = cargo_home()?;
    root.shared = vec![shell.root.clone(), home.clone()];
    let (target, compiler) = (architecture.rust_target(), format!("{}-gcc", architecture.triplet()));
    let variable = target.replace('-', "_");
    let mut command = root.command("env", &shell.root);
    command.arg(format!("CARGO_HOME={}", home.display()));
    command.args(flags(shell, &target)?.into_iter().map(|(name, value)| format!("{name}={value}")));
    command.arg(format!("CARGO_TARGET_{}_LINKER={compiler}", variable.to_uppercase()));
    command.arg(format!("CC_{variable}={compiler}"));
    let profile = env::vars().filter(|(name, _)| name.starts_with("CARGO_PROFILE_"));
    command.args(profile.map(|(name, value)| format!("{name}={value}")));
    command.arg("cargo").args(arguments(&target)).args(what);
    shell.run(command.arg("--offline").arg(format!("--target-dir={RUST_TARGET}")))?;
    Ok(shell.path(RUST_TARGET).join(target).join("release"))
}

/// Directories of this machine, and the names by which a release's files know them: then they don't depend on where they
/// were built.
pub fn renamed(shell: &Shell) -> Result<Vec<(PathBuf, String)>> {
    let library = rust_installation(shell)?.join("lib/rustlib/src/rust");
    let library_name = format!("/rustc/{}", rust_version(shell, "commit-hash")?);
    Ok(vec![(cargo_home()?, "/usr/src/cargo".into()), (library, library_name), (shell.root.clone(), SOURCES.into())])
}

fn cargo_home() -> Result<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| env::home_dir().map(|home| home.join(".cargo"))).context("cargo has no directory")
}

/// Returns the directory of the Rust toolchain.
pub fn rust_installation(shell: &Shell) -> Result<PathBuf> {
    Ok(PathBuf::from(shell.run(shell.command("rustc").args(["--print", "sysroot"]))?.trim()))
}

/// Returns what `rustc -vV` prints for this key.
pub fn rust_version(shell: &Shell, key: &str) -> Result<String> {
    let version = shell.run(shell.command("rustc").arg("-vV"))?;
    let line = version.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    Ok(line.with_context(|| format!("`rustc -vV` names no {key}"))?.to_owned())
}

/// Returns this machine's target triple. With it, cargo does not apply flags to build scripts and macros.
pub fn host(shell: &Shell) -> Result<String> {
    rust_version(shell, "host")
}
