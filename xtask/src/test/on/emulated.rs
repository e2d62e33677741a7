//! A session of two nodes on processors that qemu emulates.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::install::install;
use crate::release;
use crate::roots::{Root, Tested};
use crate::shell::Shell;
use crate::system::Architecture;
use crate::test::report::Tally;

/// Builds a program and a library that it needs.
const BUILD: &str = r#"set -eu
rm -rf /srv/sw; mkdir -p /srv/sw/bin /srv/sw/lib; cd /srv/sw
gcc -shared -fPIC -DNAME=x -DTAG='"from the library"' -o lib/libx.so "$1/library.c"
printf '#include <stdio.h>\nconst char *x(void);\nint main(void) { return puts(x()) < 0; }\n' > app.c
gcc -o bin/app app.c -Llib -lx -Wl,-rpath,'$ORIGIN/../lib'"#;
const PROCESSES: usize = 4;

/// Runs it on two nodes.
pub fn run(shell: &Shell) -> Result<Tally> {
    release::build_archive(shell, Architecture::Aarch64)?;
    let mut root = Root::of(shell, Tested::Arm64.contents())?;
    install(shell, &root, Architecture::Aarch64)?;
    let programs = shell.path("tests/programs");
    root.shown = vec![programs.clone()];
    shell.run(root.command("sh", Path::new("/")).args(["-c", BUILD, "sh"]).arg(programs))?;
    let mut tally = Tally::default();
    match session(shell, &root) {
        Ok(()) => tally.add(Tally::passed()),
        Err(error) => tally.add(Tally::failed(format!("arm64: {error:#}"))),
    }
    Ok(tally)
}

/// Runs it by audit: qemu lacks the calls that mount a file system.
fn session(shell: &Shell, root: &Root<'_>) -> Result<()> {
    let mut command = root.command("headwater", Path::new("/"));
    command.args(["run", "--nodes=2", "--ppn=2", "--shared=/srv/sw", "--no-summary", "--summary-json=/srv/summary"]);
    let output = shell.run(command.args(["--via=audit", "--", "/srv/sw/bin/app"]))?;
    let printed = output.lines().filter(|line| *line == "from the library").count();
    ensure!(printed == PROCESSES, "{output}");
    let summary: Value = serde_json::from_str(&std::fs::read_to_string(root.outside("srv/summary"))?)?;
    let files = summary["shared_fs"]["files_read"].as_u64().context("the summary counts no files")?;
    ensure!(summary["via"] == "audit" && files == 2, "{summary}");
    Ok(())
}
