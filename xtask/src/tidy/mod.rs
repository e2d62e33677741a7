//! The style that a machine can check.

mod c_format;
mod content;
mod cycles;
mod edges;
mod floors;
mod functions;
mod handlers;
mod imports;
mod layout;
mod text;
mod words;

use anyhow::{Result, bail};

use crate::docs;
use crate::shell::Shell;

/// Fails with all complaints, one a line. Returns what couldn't be checked, and why.
pub fn run(shell: &Shell) -> Result<Option<String>> {
    let listed = shell.run(shell.command("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]))?;
    let paths: Vec<String> = listed.lines().filter(|p| shell.path(p).is_file()).map(str::to_owned).collect();
    let read = |path: &str| std::fs::read(shell.path(path)).map(|b| String::from_utf8_lossy(&b).into_owned());
    let mut complaints = edges::check(shell)?;
    complaints.extend(docs::tidy(shell)?);
    complaints.extend(layout::folders(&paths));
    complaints.extend(layout::purity(|path| read(path).unwrap_or_default()));
    complaints.extend(layout::architecture(&read("ARCHITECTURE.md").unwrap_or_default(), &paths));
    let skipped = match c_format::check(shell, &paths)? {
        c_format::Checked::Done(found) => {
            complaints.extend(found);
            None
        }
        c_format::Checked::Skipped(why) => Some(why),
    };
    let here = shell.root.to_string_lossy();
    let mut sources = Vec::new();
    for path in paths.iter().filter(|path| is_text(path)) {
        sources.push((path.as_str(), read(path)?));
    }
    complaints.extend(cycles::check(&sources));
    complaints.extend(floors::check(&sources));
    complaints.extend(handlers::check(&sources));
    for (path, source) in &sources {
        complaints.extend(content::check(path, source));
        complaints.extend(words::check(path, source));
        if source.contains(&*here) {
            complaints.push(format!("{path}: names {here}, a directory of this machine"));
        }
    }
    if complaints.is_empty() {
        return Ok(skipped);
    }
    let count = complaints.len();
    bail!("{}\n{count} complaints\nrepeat: cargo xtask tidy", complaints.join("\n"));
}

fn is_text(path: &str) -> bool {
    !path.starts_with("fuzz/seeds/")
        && !path.ends_with(".png")
        && !matches!(path, "Cargo.lock" | "fuzz/Cargo.lock" | "LICENSE")
}
