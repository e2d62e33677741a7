//! The drawings of results, each made of a CSV file beside it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use headwater_figures::results;

use crate::shell::Shell;

/// The directory of the results.
const RESULTS: &str = "docs/results/";

/// Writes each drawing of the repository again, from its data.
pub fn write(shell: &Shell) -> Result<()> {
    for (path, svg) in made(shell)? {
        if let Some(svg) = svg {
            std::fs::write(shell.path(&path), svg).with_context(|| path.clone())?;
        }
    }
    Ok(())
}

/// Returns complaints about drawings without data, and about those that differ from their data.
pub fn stale(shell: &Shell) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for (path, svg) in made(shell)? {
        match svg {
            None => complaints.push(format!("{path}: no CSV file beside it has its data")),
            Some(svg) if std::fs::read_to_string(shell.path(&path))? != svg => {
                complaints.push(format!("{path}: differs from its data; `cargo xtask docs` draws it again"));
            }
            Some(_) => {}
        }
    }
    Ok(complaints)
}

/// Returns the path of each drawing that the repository has, and the content that follows from the data.
fn made(shell: &Shell) -> Result<Vec<(String, Option<String>)>> {
    let listed =
        shell.run(shell.command("git").args(["ls-files", "--cached", "--others", "--exclude-standard", RESULTS]))?;
    let paths: Vec<&str> = listed.lines().filter(|path| shell.path(path).is_file()).collect();
    let mut made = BTreeMap::new();
    for path in paths.iter().filter(|path| path.ends_with(".csv")) {
        let text = std::fs::read_to_string(shell.path(path)).with_context(|| (*path).to_owned())?;
        let path = Path::new(path);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let drawn = results::drawings(&name, &text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        let beside = |file: String| path.with_file_name(file).to_string_lossy().into_owned();
        made.extend(drawn.into_iter().map(|one| (beside(one.file), one.svg)));
    }
    let drawings = paths.into_iter().filter(|path| path.ends_with(".svg"));
    Ok(drawings.map(|path| (path.to_owned(), made.remove(path))).collect())
}
