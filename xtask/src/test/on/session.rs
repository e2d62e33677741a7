//! The first session of two nodes in a root.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cc;
use crate::roots::Root;
use crate::shell::Shell;
use crate::system::{Architecture, System};

const PROCESSES: usize = 4;
/// What is served.
const FILES: [&str; 2] = ["/srv/sw/bin/app", "/srv/sw/lib/libx.so"];

/// Runs it, and checks that both nodes were served. Returns how long it took.
pub fn run(shell: &Shell, root: &Root<'_>, architecture: Architecture, via: &str) -> Result<Duration> {
    build(&Shell { system: System::Released(architecture), ..shell.clone() }, root)?;
    let mut command = root.command("headwater", Path::new("/"));
    command.args(["run", "--nodes=2", "--ppn=2", "--shared=/srv/sw", "--no-summary", "--summary-json=/srv/summary"]);
    command.arg(format!("--via={via}")).args(["--", FILES[0]]);
    let start = Instant::now();
    let output = shell.run(&mut command)?;
    let took = start.elapsed();
    let printed = output.lines().filter(|line| *line == "from the library").count();
    ensure!(printed == PROCESSES, "{output}");
    let summary: Value = serde_json::from_str(&std::fs::read_to_string(root.outside("srv/summary"))?)?;
    let files = summary["shared_fs"]["files_read"].as_u64().context("the summary counts no files")?;
    ensure!((via == "auto" || summary["via"] == via) && files == FILES.len() as u64, "{summary}");
    Ok(took)
}

/// Builds a program and a library that it needs, as a release is built: for the oldest C library.
fn build(shell: &Shell, root: &Root<'_>) -> Result<()> {
    let [program, library] = FILES.map(|file| root.outside(file));
    for file in [&program, &library] {
        std::fs::create_dir_all(file.parent().context("a file lies in a directory")?)?;
    }
    let mut command = cc::compiler(shell);
    command
        .args(["-shared", "-fPIC", "-Wl,-soname,libx.so", "-DNAME=x", "-DTAG=\"from the library\"", "-o"])
        .arg(&library);
    shell.run(command.arg("tests/programs/library.c"))?;
    let source = root.outside("srv/app.c");
    std::fs::write(&source, "#include <stdio.h>\nconst char *x(void);\nint main(void) { return puts(x()) < 0; }\n")?;
    let mut command = cc::compiler(shell);
    command.arg("-o").arg(&program).arg(&source).arg(&library).arg("-Wl,-rpath,$ORIGIN/../lib");
    shell.run(&mut command).map(drop)
}
