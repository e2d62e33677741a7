//! The layout of C, by `.clang-format`.

use anyhow::Result;

use crate::shell::Shell;

/// The version of the files' layout; others lay out some lines differently.
const VERSION: &str = "version 14.";

/// The result of the check.
pub enum Checked {
    /// The complaints, one for each file.
    Done(Vec<String>),
    /// Why nothing was checked.
    Skipped(String),
}

/// Compares the C files among `paths` with clang-format's layout of them.
pub fn check(shell: &Shell, paths: &[String]) -> Result<Checked> {
    let version = shell.capture(shell.command("clang-format").arg("--version"));
    if !version.is_ok_and(|version| version.output.contains(VERSION)) {
        let why = "the layout of C: clang-format 14 is missing (Debian's package clang-format)";
        return Ok(Checked::Skipped(why.to_owned()));
    }
    let is_c = |path: &&String| path.ends_with(".c") || path.ends_with(".h");
    let mut command = shell.command("clang-format");
    command.args(["--dry-run", "--style=file"]).args(paths.iter().filter(is_c));
    Ok(Checked::Done(complaints(&shell.run(&mut command)?)))
}

/// One complaint for each file that the program warns of, at the first line of which it does.
fn complaints(output: &str) -> Vec<String> {
    let mut complaints: Vec<String> = Vec::new();
    let mut last = "";
    for line in output.lines().filter(|line| line.contains("[-Wclang-format-violations]")) {
        let mut parts = line.split(':');
        let (Some(path), Some(number)) = (parts.next(), parts.next()) else { continue };
        if path != last {
            complaints.push(format!("{path}:{number}: not laid out by .clang-format: clang-format -i {path}"));
            last = path;
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_complaint_for_each_file() {
        let output = "a/b.c:6:2: warning: code should be clang-formatted [-Wclang-format-violations]\n\tint a;\n ^\n\
            a/b.c:9:2: warning: code should be clang-formatted [-Wclang-format-violations]\n\
            a/c.h:1:1: warning: code should be clang-formatted [-Wclang-format-violations]\n";
        let found = complaints(output);
        assert!(
            found.len() == 2 && found[0].starts_with("a/b.c:6: ") && found[1].starts_with("a/c.h:1: "),
            "{found:?}"
        );
        assert!(complaints("").is_empty());
    }
}
