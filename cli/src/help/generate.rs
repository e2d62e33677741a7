//! `headwater generate`: writes man pages, completions and references from the definition of the command line.

use std::fs;
use std::io::{BufRead, stdin};
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error};
use clap_complete::Shell;

use super::options::Generate;
use super::{man, reference};
use crate::message::show;
use crate::options::CommandLine;
use crate::options::inner::InnerLine;

/// Writes the requested files.
pub fn generate(what: &Generate) -> Result<u8> {
    let (Generate::Man { directory } | Generate::Completions { directory } | Generate::Reference { directory }) = what
    else {
        return rejected();
    };
    fs::create_dir_all(directory).with_context(|| format!("{} can't be made", directory.display()))?;
    match what {
        Generate::Man { .. } => write_all(directory, man::pages()),
        Generate::Reference { .. } => write_all(directory, reference::pages()),
        _ => completions(directory),
    }
    .with_context(|| format!("{} can't be written to", directory.display()))?;
    Ok(0)
}

fn write_all(directory: &Path, pages: Vec<(String, String)>) -> std::io::Result<()> {
    pages.into_iter().try_for_each(|(name, text)| fs::write(directory.join(name), text))
}

fn completions(directory: &Path) -> std::io::Result<()> {
    let mut command = CommandLine::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "headwater", directory)?;
    }
    Ok(())
}

/// Prints the lines of standard input that this program does not accept, and why. A line is a place, `whole` or `part`,
/// and the words of a command line.
fn rejected() -> Result<u8> {
    let mut status = 0;
    for line in stdin().lock().lines() {
        let line = line.context("standard input can't be read")?;
        let parts: Vec<&str> = line.split('\t').collect();
        let [place, extent, arguments @ ..] = &parts[..] else {
            bail!("`{line}` is not a place and words, separated by tabs")
        };
        if let Some(why) = rejection(arguments, *extent == "part") {
            status = 1;
            show(std::io::stdout(), format_args!("{place}: `{}`: {why}\n", arguments.join(" ")));
        }
    }
    Ok(status)
}

/// Returns why a command line is not valid for this program. Arguments in capitals are placeholders of any value.
/// `is_part`: arguments may be missing.
fn rejection(arguments: &[&str], is_part: bool) -> Option<String> {
    let is_capital = |word: &str| word.chars().all(|c| c.is_ascii_uppercase());
    let numbers = arguments.iter().map(|&argument| if is_capital(argument) { "1" } else { argument });
    let error = CommandLine::command().try_get_matches_from(arguments).err()?;
    let others =
        [CommandLine::command().try_get_matches_from(numbers), InnerLine::command().try_get_matches_from(arguments)];
    let is_accepted = |error: &Error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingRequiredArgument => is_part,
        _ => matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value))
            if is_capital(value) && (is_part || !value.is_empty())),
    };
    let is_any = is_accepted(&error) || others.iter().any(|other| other.as_ref().err().is_none_or(is_accepted));
    let text = error.to_string();
    (!is_any).then(|| text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_not_this_programs_are_rejected() {
        let rejection = |line: &str, is_part| rejection(&line.split(' ').collect::<Vec<_>>(), is_part);
        for accepted in [
            "headwater run -- srun -N 4 ./app",
            "headwater run --nodes N PROGRAM",
            "headwater run --via HOW PROGRAM",
            "headwater --version",
            "headwater stats --help",
        ] {
            assert_eq!(rejection(accepted, false), None, "{accepted}");
        }
        for part in ["headwater run", "headwater io", "headwater run --session", "headwater simulate --nodes 4"] {
            assert!(rejection(part, false).is_some() && rejection(part, true).is_none(), "{part}");
        }
        for rejected in ["headwater rnu true", "headwater run --shraed /x true", "headwater run --nodes none true"] {
            assert!(rejection(rejected, true).is_some(), "{rejected}");
        }
    }
}
