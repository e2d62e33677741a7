//! The documents as a site, by mdbook.

use std::fs;

use anyhow::{Context, Result};

use super::installed::install;
use crate::shell::Shell;

/// The version that is installed where there is none.
const MDBOOK: &str = "0.5.4";
/// The installed directory.
const TOOLS: &str = "target/tools";
/// The source of the site: the documents as they are installed.
const SOURCE: &str = "target/docs-source";
/// The directory where the site is built.
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
    shell.step("build the site", || {
        let source = shell.path(SOURCE);
        install(shell, &source)?;
        fs::copy(source.join("docs/book.toml"), source.join("book.toml"))?;
        fs::write(source.join("SUMMARY.md"), from_root(&fs::read_to_string(source.join("docs/SUMMARY.md"))?))?;
        shell.run(shell.command(&program).arg("build").arg(source).arg("--dest-dir").arg(shell.path(SITE))).map(drop)
    })
}

/// Rewrites the links of a page in `docs/` for a page beside README.md.
fn from_root(page: &str) -> String {
    page.replace("](", "](docs/").replace("](docs/../", "](")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_rewritten_for_the_root() {
        assert_eq!(from_root("[a](b.md) [c](../d.md)"), "[a](docs/b.md) [c](d.md)");
    }
}
