//! `headwater closures`: shows and removes what runs have left for the next ones.

use std::fs;
use std::io::stdout;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use headwater_figures::text::{columns, grouped, size};

use crate::closures::options::{ClosuresCommand, ClosuresOptions};
use crate::closures::{self, Closure};
use crate::message::show;

/// Characters of a program in the list.
const TITLE_MAX: usize = 60;

/// Executes the command.
pub fn closures(options: &ClosuresOptions) -> Result<u8> {
    let directory = options.closures.clone().or_else(closures::default_directory);
    let directory = directory.context("there is no home directory: name the directory with --closures")?;
    let all = closures::list(&directory).with_context(|| format!("{} can't be read", directory.display()))?;
    match options.command.as_ref().unwrap_or(&ClosuresCommand::List) {
        ClosuresCommand::List if all.is_empty() => {
            show(stdout(), format_args!("no closures in {}: each run leaves one\n", directory.display()));
        }
        ClosuresCommand::List => show(stdout(), table(&all, SystemTime::now())),
        ClosuresCommand::Show { name } => {
            let path = directory.join(known(&all, &directory, name)?);
            let text = fs::read_to_string(&path).with_context(|| format!("{} can't be read", path.display()))?;
            show(stdout(), text);
        }
        ClosuresCommand::Remove { names, all: is_all } => {
            let names: Vec<&str> = match is_all {
                true => all.iter().map(|closure| &*closure.name).collect(),
                false => names.iter().map(|name| known(&all, &directory, name)).collect::<Result<_>>()?,
            };
            for name in names {
                closures::remove(&directory, name)
                    .with_context(|| format!("{} can't be removed", directory.join(name).display()))?;
            }
        }
    }
    Ok(0)
}

/// Returns the whole name of a closure, which may be given without its ending.
fn known<'a>(all: &'a [Closure], directory: &Path, name: &str) -> Result<&'a str> {
    let is_it = |closure: &&Closure| closure.name == name || closure.name.strip_suffix(".closure") == Some(name);
    let found = all.iter().find(is_it);
    ensure!(found.is_some(), "{} has no `{name}`: `headwater closures` lists the names", directory.display());
    Ok(found.map_or("", |closure| &closure.name))
}

fn table(all: &[Closure], now: SystemTime) -> String {
    let head = ["NAME", "PROGRAM", "ENTRIES", "SIZE", "USED"].map(String::from).to_vec();
    let row = |closure: &Closure| {
        let age = now.duration_since(closure.used).unwrap_or_default();
        let name = closure.name.trim_end_matches(".closure").to_owned();
        let title: String = closure.title.chars().take(TITLE_MAX).collect();
        vec![name, title, grouped(closure.entries as u64), size(closure.bytes), ago(age)]
    };
    columns(&std::iter::once(head).chain(all.iter().map(row)).collect::<Vec<_>>(), 2)
}

fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    let (number, unit) = match seconds {
        0..60 => return "now".into(),
        60..3600 => (seconds / 60, "min"),
        3600..86_400 => (seconds / 3600, "h"),
        _ => (seconds / 86_400, "d"),
    };
    format!("{number} {unit} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        let cases = [(0, "now"), (59, "now"), (61, "1 min ago"), (7300, "2 h ago"), (200_000, "2 d ago")];
        for (seconds, expected) in cases {
            assert_eq!(ago(Duration::from_secs(seconds)), expected);
        }
    }
}
