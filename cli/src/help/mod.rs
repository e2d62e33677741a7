//! Help for users: what `headwater help` and each `--help` print, man pages, completions and the documents' reference,
//! all from the one definition of the command line.

pub mod generate;
mod groups;
mod large;
mod man;
pub mod options;
mod pages;
mod reference;
mod text;
pub mod variables;
mod visible;

use std::io::{Write, stdout};

use anyhow::{Result, anyhow};
use clap::{Command, CommandFactory};

use self::large::without_groups;
use self::options::HelpOptions;
use self::visible::visible_below;
use crate::options::CommandLine;

/// Returns the definition as users see it: large commands leave groups of options to a page of their own, and the help
/// of each command ends with the place of its document.
pub fn command() -> Command {
    ended(without_groups())
}

/// Prints the help of a command or of a group of options; without one, a list of all.
pub fn help(options: &HelpOptions) -> Result<u8> {
    let mut command = command();
    let subject: Vec<&str> = options.subject.iter().map(String::as_str).collect();
    // A closed output is not an error.
    let _ = match (find(&command, &subject), &subject[..]) {
        (Some(_), _) => {
            let arguments = ["headwater"].iter().chain(&subject).chain(&["--help"]);
            command.try_get_matches_from_mut(arguments).err().map_or(Ok(()), |help| help.print())
        }
        (None, [name]) => groups::find(name).ok_or_else(|| unknown(&command, name))?.page().print_help(),
        _ => return Err(unknown(&command, &subject.join(" "))),
    };
    Ok(0)
}

/// Prints the version.
pub fn version() -> Result<u8> {
    let _ = write!(stdout(), "{}", CommandLine::command().render_version());
    Ok(0)
}

fn find<'a>(command: &'a Command, names: &[&str]) -> Option<&'a Command> {
    names.iter().try_fold(command, |command, name| visible_below(command).find(|below| below.get_name() == *name))
}

fn unknown(command: &Command, subject: &str) -> anyhow::Error {
    let names = visible_below(command).map(Command::get_name).chain(groups::GROUPS.iter().map(|group| group.name));
    let near = variables::nearest(subject, names).map(|name| format!(" (`{name}` is the nearest)")).unwrap_or_default();
    anyhow!("there is no command or group of options `{subject}`{near}; `headwater help` lists them")
}

/// The same command, the help of which ends with pages to read, as that of all commands below.
fn ended(command: Command) -> Command {
    let command = command.mut_subcommands(|below| if below.is_hide_set() { below } else { ended(below) });
    let name = command.get_name();
    let examples = command.get_after_help().map(ToString::to_string);
    let names = || groups::GROUPS.map(|group| group.name).join(", ");
    let groups = match name {
        "headwater" => Some(format!("Groups of options, each with a page (headwater help GROUP): {}", names())),
        _ => groups::LARGE.contains(&name).then(|| groups::list(&command)),
    };
    let document = pages::place(pages::of(name).map_or(pages::REFERENCE, |page| page.document));
    let parts = [examples, groups, Some(format!("Documentation: {document}"))];
    command.after_help(parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help_of(names: &[&str]) -> String {
        let mut command = command();
        command.build();
        find(&command, names).unwrap().clone().render_long_help().to_string()
    }

    #[test]
    fn large_commands_name_the_pages_of_their_groups() {
        for name in groups::LARGE {
            let help = help_of(&[name]);
            assert!(!help.contains("\n      --store-max") && help.contains("headwater help store"), "{help}");
            assert!(help.contains("--store-max,") && help.contains("--shared <DIR>"), "{help}");
            assert!(help.trim_end().lines().last().unwrap().starts_with("Documentation: "), "{help}");
            assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
        }
        assert!(help_of(&["mount"]).contains("--store-max <BYTES>"));
        assert!(help_of(&["io", "predict"]).contains("docs/guide/mpi-io.md"));
    }

    #[test]
    fn hidden_options_are_accepted() {
        let parse = |arguments: &[&str]| command().try_get_matches_from(arguments).map(|_| ());
        parse(&["headwater", "run", "--store-max", "1G", "--trees", "2", "--io", "auto", "true"]).unwrap();
        assert!(parse(&["headwater", "run", "--store-max", "much", "true"]).is_err());
        command().debug_assert();
    }

    #[test]
    fn groups_have_pages() {
        for group in &groups::GROUPS {
            let page = group.page().render_long_help().to_string();
            assert!(!group.all_options().is_empty() && page.contains(&format!("{}:\n", group.heading)), "{page}");
            assert!(page.contains("run, ") || page.contains(", run"), "{page}");
        }
        assert_eq!(
            groups::find("store").unwrap().commands(),
            ["run", "start", "record", "explain", "mount", "serve", "join"]
        );
    }

    #[test]
    fn an_unknown_subject_has_a_nearest() {
        let error = unknown(&command(), "stroe").to_string();
        assert!(error.contains("`store` is the nearest"), "{error}");
    }
}
