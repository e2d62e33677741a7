//! The documents as they are installed, beside each other as in the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::markdown;
use crate::files;
use crate::shell::Shell;

/// Copies the documents to a directory: `docs/`, README.md, and the files beside it that it links.
pub fn install(shell: &Shell, to: &Path) -> Result<()> {
    // Pages that have moved are not left behind.
    if to.join("docs").exists() {
        fs::remove_dir_all(to.join("docs"))?;
    }
    files::copy_tree(&shell.path("docs"), &to.join("docs"))?;
    for name in beside_docs(&fs::read_to_string(shell.path("README.md"))?) {
        files::copy_if_changed(&shell.path(&name), &to.join(&name))?;
    }
    Ok(())
}

/// The documents outside of `docs/`: those that belong to every installation, and what README.md links.
fn beside_docs(readme: &str) -> BTreeSet<String> {
    let linked = markdown::read(readme).links.into_iter().map(|(_, target)| target);
    let files = linked.filter(|target| !target.contains("://") && !target.starts_with(['#', '.']));
    let names = files.map(|target| target.split('#').next().unwrap_or_default().to_owned());
    let always = ["README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md"].map(str::to_owned);
    always.into_iter().chain(names.filter(|name| !name.starts_with("docs"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_readme_links_is_installed() {
        let names = beside_docs("[a](ARCHITECTURE.md#x) [b](docs/a.md) [c](https://x.org) [d](#top)");
        let expected = ["ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md"];
        assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
    }
}
