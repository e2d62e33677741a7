//! The documents as a site, by mdbook.

use anyhow::{Context, Result};

use crate::shell::Shell;

/// The version that is installed where there is none.
const MDBOOK: &str = "0.5.4";
/// Where it is installed.
const TOOLS: &str = "target/tools";
/// Where the site is built.
pub const SITE: &str = "target/docs";

/// Builds the site. The first time this installs mdbook below `target/`, which takes some minutes and needs crates.io.
pub fn build(shell: &Shell) -> Result<()> {
    let program = shell.path(TOOLS).join("bin/mdbook");
    let is_there = shell.run(shell.command(&program).arg("--version")).is_ok_and(|version| version.contains(MDBOOK));
    if !is_there {
        let mut install = shell.cargo(&["install", "mdbook", "--locked", "--version", MDBOOK, "--root", TOOLS]);
        install.args(["--no-default-features", "--features", "search"]);
        shell.step("install mdbook", || shell.run(&mut install).map(drop)).with_context(|| {
            format!("the site can't be built without mdbook {MDBOOK}; the documents can be read as they are, in docs/")
        })?;
    }
    shell.step("build the site", || shell.run(shell.command(&program).args(["build", "docs"])).map(drop))
}
