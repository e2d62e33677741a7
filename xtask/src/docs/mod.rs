//! The documents: their links, their command lines, the pages that are made from the command line's definition, and
//! the site.

mod drawings;
mod installed;
mod lines;
mod links;
pub mod manual;
mod markdown;
mod site;
mod walks;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

pub use self::installed::install;
use self::lines::{Line, Program};
use self::markdown::Page;
use crate::shell::Shell;
use crate::{arguments, files, headwater};

/// The directory of the pages that are made from the command line's definition.
const REFERENCE: &str = "docs/reference";
/// Pages of data, without sentences.
const NOT_READ: &str = "fuzz/";

/// Writes the pages that are made, checks all, and builds the site.
pub fn run(shell: &Shell) -> Result<()> {
    shell.step("drawings", || drawings::write(shell))?;
    let headwater = shell.step("build headwater", || headwater::build(shell))?;
    shell.step("reference", || files::copy_tree(&reference(shell, &headwater)?, &shell.path(REFERENCE)))?;
    shell.step("links and command lines", || check_with(shell, &headwater))?;
    site::build(shell)?;
    println!("{}/index.html is ready", site::SITE);
    Ok(())
}

/// Fails with all complaints about the documents.
pub fn check(shell: &Shell) -> Result<()> {
    let headwater = headwater::build(shell)?;
    check_with(shell, &headwater)
}

fn check_with(shell: &Shell, headwater: &Path) -> Result<()> {
    let pages = pages(shell)?;
    let mut complaints = links(shell, &pages);
    complaints.extend(rejected_by_headwater(shell, headwater, &pages)?);
    complaints.extend(stale(shell, &reference(shell, headwater)?)?);
    if complaints.is_empty() {
        return Ok(());
    }
    bail!("{}\nrepeat: cargo xtask test --only docs", complaints.join("\n"));
}

/// Complaints that need nothing built: dead links, drawings that differ from their data, functions that aren't where the overview has them, and command lines
/// that `cargo xtask` does not accept.
pub fn tidy(shell: &Shell) -> Result<Vec<String>> {
    let pages = pages(shell)?;
    let mut complaints = links(shell, &pages);
    complaints.extend(drawings::stale(shell)?);
    for page in walks::PAGES {
        complaints.extend(walks::check(shell, page, &std::fs::read_to_string(shell.path(page))?));
    }
    for (position, line) in command_lines(&pages, Program::Xtask) {
        complaints.extend(rejection(&line).map(|why| format!("{position}: `{}`: {why}", line.args.join(" "))));
    }
    Ok(complaints)
}

fn pages(shell: &Shell) -> Result<BTreeMap<String, Page>> {
    let listed =
        shell.run(shell.command("git").args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]))?;
    let paths = listed.lines().filter(|path| !path.starts_with(NOT_READ) && shell.path(path).is_file());
    let read = |path: &str| -> Result<_> {
        let text = std::fs::read_to_string(shell.path(path)).with_context(|| path.to_owned())?;
        Ok((path.to_owned(), markdown::read(&text)))
    };
    paths.map(read).collect()
}

fn links(shell: &Shell, pages: &BTreeMap<String, Page>) -> Vec<String> {
    links::check(pages, |path| shell.path(path).exists())
}

/// The command lines of a program, each with its position.
fn command_lines(pages: &BTreeMap<String, Page>, program: Program) -> Vec<(String, Line)> {
    let of_page = |(path, page): (&String, &Page)| {
        let of_code = |code: &markdown::Code| {
            let position = format!("{path}:{}", code.line);
            lines::find(code).into_iter().map(move |line| (position.clone(), line))
        };
        page.code.iter().flat_map(of_code).collect::<Vec<_>>()
    };
    pages.iter().flat_map(of_page).filter(|(_, line)| line.program == program).collect()
}

/// Returns why `cargo xtask` does not accept a line. Capitalized names are placeholders for values, numbers among them.
fn rejection(line: &Line) -> Option<String> {
    let is_capital = |word: &str| word.chars().all(|c| c.is_ascii_uppercase());
    let numbers = line.args.iter().map(|word| if is_capital(word) { "1" } else { word });
    let error = arguments::command().try_get_matches_from(&line.args).err()?;
    let with_numbers = arguments::command().try_get_matches_from(numbers);
    let is_accepted = |error: &Error| match error.kind() {
        ErrorKind::DisplayHelp => true,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand => line.is_part,
        _ => matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value))
            if is_capital(value) && (line.is_part || !value.is_empty())),
    };
    let is_any = is_accepted(&error) || with_numbers.err().as_ref().is_none_or(is_accepted);
    let text = error.to_string();
    (!is_any).then(|| text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
}

/// Complaints about command lines that `headwater` does not accept, by running it.
fn rejected_by_headwater(shell: &Shell, headwater: &Path, pages: &BTreeMap<String, Page>) -> Result<Vec<String>> {
    let mut command = shell.command(headwater);
    command.args(["generate", "rejected"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("headwater can't be started")?;
    let mut input = child.stdin.take().expect("it is piped");
    let lines = command_lines(pages, Program::Headwater).into_iter().map(|(position, line)| {
        format!("{position}\t{}\t{}\n", if line.is_part { "part" } else { "whole" }, line.args.join("\t"))
    });
    let text: String = lines.collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().expect("writing does not panic").context("headwater does not read its standard input")?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// The pages that are made, in a directory below `target/`.
fn reference(shell: &Shell, headwater: &Path) -> Result<std::path::PathBuf> {
    let directory = shell.path("target/generated/reference");
    shell.run(shell.command(headwater).args(["generate", "reference"]).arg(&directory))?;
    Ok(directory)
}

/// Complaints about made pages that have another content than those in the repository.
fn stale(shell: &Shell, made: &Path) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for entry in std::fs::read_dir(made)? {
        let page = Path::new(REFERENCE).join(entry?.file_name());
        let name = page.file_name().expect("a page has a name");
        if std::fs::read(shell.path(&page)).ok() != Some(std::fs::read(made.join(name))?) {
            complaints.push(format!("{}: stale; `cargo xtask docs` writes it again", page.display()));
        }
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_this_program_are_parsed() {
        let rejected = |text: &str, is_part: bool| {
            let args = text.split('|').map(str::to_owned).collect();
            rejection(&Line { program: Program::Xtask, args, is_part })
        };
        for accepted in [
            "cargo xtask|tidy",
            "cargo xtask|test|--only|STEP",
            "cargo xtask|cluster|up|N",
            "cargo xtask|--help",
            "cargo xtask|sim|--seed|S",
        ] {
            assert_eq!(rejected(accepted, false), None, "{accepted}");
        }
        for part in ["cargo xtask|install", "cargo xtask|cluster", "cargo xtask|sim|--seed"] {
            assert!(rejected(part, false).is_some() && rejected(part, true).is_none(), "{part}");
        }
        assert!(rejected("cargo xtask|tidi", true).is_some());
    }
}
