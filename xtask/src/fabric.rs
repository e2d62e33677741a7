//! The carrier of links over libfabric: it is built where libfabric's headers are.

use std::path::Path;

use anyhow::Result;

use crate::shell::Shell;
use crate::system::System;
use crate::{cc, files};

/// The carrier's sources.
pub const SOURCES: &str = "integrations/fabric";
/// Its tests.
pub const TESTS: &str = "integrations/fabric/tests";
/// The source that calls libfabric.
pub const NEEDS_LIBFABRIC: &str = "fabric.c";
/// The program.
const CARRIER: &str = "headwater-fabric";
const FLAGS: &[&str] = &["-O2", "-g1", "-fPIE", "-pie", "-Wl,-z,relro,-z,now", "-Wl,--build-id"];

/// Arguments that link a program with libfabric; `None` without its headers. Where pkg-config finds one in another
/// directory, the program finds it there.
pub fn libraries(shell: &Shell) -> Result<Option<Vec<String>>> {
    let known = |what: &str| {
        if shell.system != System::Here {
            return String::new();
        }
        let output = shell.command("pkg-config").args([what, "libfabric"]).output();
        let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
        String::from_utf8_lossy(&text.unwrap_or_default()).trim().to_owned()
    };
    let mut args: Vec<String> = known("--cflags").split_whitespace().map(str::to_owned).collect();
    let mut probe = cc::compiler(shell);
    probe.args(&args).args(["-fsyntax-only", "-x", "c", "-include", "rdma/fabric.h", "/dev/null"]);
    if !shell.capture(&mut probe)?.status.success() {
        return Ok(None);
    }
    let directory = known("--variable=libdir");
    if !directory.is_empty() && !directory.starts_with("/usr/lib") {
        args.extend([format!("-L{directory}"), format!("-Wl,-rpath,{directory}")]);
    }
    args.push("-lfabric".into());
    if shell.system != System::Here {
        // What libfabric itself needs is where it is installed.
        args.push("-Wl,--allow-shlib-undefined".into());
    }
    Ok(Some(args))
}

/// Copies the carrier, if it can be built, to where it is installed.
pub fn dist(shell: &Shell, dist: &Path) -> Result<()> {
    let Some(libraries) = libraries(shell)? else {
        println!("  note   {CARRIER} is not built: rdma/fabric.h is missing (package libfabric-dev)");
        return Ok(());
    };
    let mut sources = files::with_extensions(&shell.path(SOURCES), &["c"])?;
    sources.retain(|source| !source.starts_with(shell.path(TESTS)));
    let directory = shell.built("fabric");
    std::fs::create_dir_all(&directory)?;
    let (program, partial) = (directory.join(CARRIER), files::partial(&directory.join(CARRIER)));
    let mut command = cc::compiler(shell);
    command.args(FLAGS).arg("-o").arg(&partial);
    command.args(sources.iter().map(|source| source.strip_prefix(&shell.root).unwrap_or(source))).args(libraries);
    shell.run(&mut command)?;
    std::fs::rename(partial, &program)?;
    files::copy_if_changed(&program, &dist.join("lib").join(CARRIER))
}
