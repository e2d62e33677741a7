//! The file with a site's variables, as systemd reads it: `NAME=VALUE`, a line each.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::{CommandFactory, FromArgMatches};

use crate::options::{Command, CommandLine};
use crate::site_export::options::JoinOptions;

/// The largest file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Returns the options of `headwater join` with the variables of a file. Those that are no option of it are left out.
///
/// # Errors
/// The file can't be read, or an option is missing or malformed.
pub fn read(file: &Path) -> Result<JoinOptions> {
    let shown = file.display();
    let mut text = String::new();
    let opened = File::open(file).with_context(|| format!("{shown} can't be read; name another with --site FILE"))?;
    opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).with_context(|| format!("{shown} can't be read"))?;
    ensure!(text.len() as u64 <= FILE_BYTES_MAX, "{shown} has more than {FILE_BYTES_MAX} bytes");
    options(&text).with_context(|| shown.to_string())
}

fn options(text: &str) -> Result<JoinOptions> {
    let definition = CommandLine::command();
    let join = definition.find_subcommand("join").context("`join` is a command")?;
    let mut arguments = vec!["headwater".to_owned(), "join".to_owned()];
    for (number, line) in (1..).zip(text.lines()) {
        let Some((name, value)) = variable(line).with_context(|| format!("line {number}"))? else { continue };
        let is_named = |option: &&clap::Arg| option.get_env().is_some_and(|variable| variable == name);
        let Some(option) = join.get_arguments().find(is_named) else { continue };
        let Some(long) = option.get_long() else { continue };
        if option.get_action().takes_values() {
            arguments.push(format!("--{long}={value}"));
        } else if !["", "0", "n", "no", "f", "false", "off"].contains(&&*value.to_lowercase()) {
            arguments.push(format!("--{long}"));
        }
    }
    let parsed = CommandLine::command().try_get_matches_from(arguments).and_then(|m| CommandLine::from_arg_matches(&m));
    match parsed {
        Ok(CommandLine { command: Command::Join(options) }) => Ok(options),
        Ok(_) => bail!("`join` is a command"),
        Err(error) => {
            let text = error.to_string();
            let first = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
            bail!("{}", first.split_whitespace().collect::<Vec<_>>().join(" "))
        }
    }
}

/// Returns the name and the value in a line; `None` of an empty line or a comment.
fn variable(line: &str) -> Result<Option<(&str, String)>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with(['#', ';']) {
        return Ok(None);
    }
    let (name, value) = line.split_once('=').context("write NAME=VALUE")?;
    let (name, value) = (name.trim(), value.trim());
    let quoted = ['"', '\''].iter().find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote));
    Ok(Some((name, quoted.unwrap_or(value).to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_options() {
        let text = "# a comment\n\nHEADWATER_EXPORT=/udsl\n HEADWATER_READERS = \"io[1-2]\"\nHEADWATER_NODES='n[1-4]'\n\
                    HEADWATER_PORT=7\nHEADWATER_VERBOSE=1\nPATH=/bin\n";
        let read = options(text).unwrap();
        assert_eq!((read.site.export.to_str(), read.site.readers.len(), read.site.port), (Some("/udsl"), 2, 7));
        assert_eq!(read.site.nodes.to_string(), "n[1-4]");
    }

    #[test]
    fn malformed_files_are_refused() {
        let check = |text: &str, why: &str| {
            let error = format!("{:#}", options(text).unwrap_err());
            assert!(error.contains(why), "{error}");
        };
        check("HEADWATER_EXPORT", "line 1: write NAME=VALUE");
        check("HEADWATER_EXPORT=/udsl\n", "--readers");
        check("HEADWATER_EXPORT=/udsl\nHEADWATER_READERS=io[1-\nHEADWATER_NODES=n1\n", "io[1-");
        check("HEADWATER_EXPORT=/udsl\nHEADWATER_READERS=io1\nHEADWATER_NODES=n1\nHEADWATER_PORT=0\n", "0");
        check("\0\u{1b}[2J=", "--export");
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("site.conf");
        let refused = |why: &str| {
            let error = format!("{:#}", read(&file).unwrap_err());
            assert!(error.contains(why), "{error}");
        };
        refused("can't be read; name another with --site");
        std::fs::write(&file, b"\xff\xfe").unwrap();
        refused("can't be read");
        std::fs::write(&file, vec![b'#'; FILE_BYTES_MAX as usize + 1]).unwrap();
        refused("more than 4194304 bytes");
    }
}
