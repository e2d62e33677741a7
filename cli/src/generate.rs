//! Man pages and completions, from the definition of the command line.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::options::{CommandLine, Generate};

/// Writes what was asked for.
pub fn generate(what: &Generate) -> Result<()> {
    let (Generate::Man { directory } | Generate::Completions { directory }) = what;
    fs::create_dir_all(directory).with_context(|| format!("{} can't be made", directory.display()))?;
    match what {
        Generate::Man { .. } => man_pages(directory),
        Generate::Completions { .. } => completions(directory),
    }
    .with_context(|| format!("{} can't be written to", directory.display()))
}

fn man_pages(directory: &Path) -> std::io::Result<()> {
    let mut command = CommandLine::command().disable_help_flag(true);
    command.build();
    let pages = pages("headwater", &command);
    clap_mangen::Man::new(command).generate_to(directory)?;
    for (name, page) in pages {
        clap_mangen::Man::new(page.name(name.leak() as &'static str)).generate_to(directory)?;
    }
    Ok(())
}

/// The commands below this one that users see, and those below these.
fn pages(name: &str, command: &clap::Command) -> Vec<(String, clap::Command)> {
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    let below = visible.flat_map(|command| {
        let name = format!("{name}-{}", command.get_name());
        let further = pages(&name, command);
        [(name, command.clone())].into_iter().chain(further)
    });
    below.collect()
}

fn completions(directory: &Path) -> std::io::Result<()> {
    let mut command = CommandLine::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "headwater", directory)?;
    }
    Ok(())
}
