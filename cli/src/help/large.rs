//! Large commands leave groups of options to pages of their own.

use clap::{Arg, Command, CommandFactory};

use super::groups;
use crate::options::CommandLine;

/// Returns the definition in which large commands hide the options that have a page of their own.
pub fn without_groups() -> Command {
    let is_apart = |option: &Arg| {
        groups::GROUPS.iter().any(|group| group.is_apart && Some(group.heading) == option.get_help_heading())
    };
    CommandLine::command().mut_subcommands(|command| {
        let is_large = groups::LARGE.contains(&command.get_name());
        command.mut_args(|option| if is_large && is_apart(&option) { option.hide(true) } else { option })
    })
}
