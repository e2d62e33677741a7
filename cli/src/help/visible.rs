//! The visible part of the definition.

use clap::Command;

/// Wider terminals don't make lines wider.
pub const COLUMNS_MAX: usize = 100;

/// Returns the commands below this one that users see.
pub fn visible_below(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set())
}
