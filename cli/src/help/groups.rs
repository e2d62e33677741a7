//! Groups of options that several commands accept, each with a page of its own: `headwater help store`.

use clap::{Arg, Command, CommandFactory};

use super::visible::visible_below;
use crate::options::CommandLine;
use crate::options::headings::{MECHANISM, MPI_IO, OVERLAY, RANKS, RENDEZVOUS, SCOPE, STORE};

/// Commands that accept nearly all groups, and name them in place of their options.
pub const LARGE: [&str; 4] = ["run", "start", "record", "explain"];

/// A group of options.
#[derive(Debug)]
pub struct Group {
    /// Its name after `headwater help`.
    pub name: &'static str,
    /// Its heading in `--help`.
    pub heading: &'static str,
    /// What its options are for.
    pub about: &'static str,
    /// Whether large commands leave its options to its page.
    pub is_apart: bool,
}

/// All groups.
pub const GROUPS: [Group; 7] = [
    Group {
        name: "scope",
        heading: SCOPE,
        about: "The scope is the set of directories whose files Headwater serves. Without options it has the directories \
                of the program and of its libraries, as far as they lie on a network file system.",
        is_apart: false,
    },
    Group {
        name: "mechanism",
        heading: MECHANISM,
        about: "Files reach a program by a mount in a namespace, by a library that LD_AUDIT loads, or by a mount with \
                paths of its own. `headwater doctor` shows which of them this machine allows.",
        is_apart: true,
    },
    Group {
        name: "overlay",
        heading: OVERLAY,
        about: "The overlay is the set of trees in which files travel from the nodes that read the shared file system \
                to all others. `headwater topology` shows the trees.",
        is_apart: true,
    },
    Group {
        name: "store",
        heading: STORE,
        about: "Each node stores its copies of files in memory. A store releases memory while the job needs it.",
        is_apart: true,
    },
    Group {
        name: "rendezvous",
        heading: RENDEZVOUS,
        about: "Behind a launcher, the front end writes its address to a file that all nodes see. The nodes connect to \
                it, and then to each other.",
        is_apart: true,
    },
    Group {
        name: "ranks",
        heading: RANKS,
        about: "The processes of a node are executed one by one, or forked from a zygote: one process that has done \
                the program's start.",
        is_apart: true,
    },
    Group {
        name: "mpi-io",
        heading: MPI_IO,
        about: "Where one rank of an MPI program reads or writes a file for all, the ranks can do it together. Results, \
                files and return codes stay the same.",
        is_apart: true,
    },
];

impl Group {
    /// Returns the group's options in this command.
    pub fn options<'a>(&self, command: &'a Command) -> impl Iterator<Item = &'a Arg> {
        command.get_arguments().filter(|option| option.get_help_heading() == Some(self.heading))
    }

    /// Returns the group's options, as `headwater run` accepts them.
    pub fn all_options(&self) -> Vec<Arg> {
        let command = CommandLine::command();
        let run = command.find_subcommand("run").expect("run is a command");
        self.options(run).map(|option| option.clone().hide(false)).collect()
    }

    /// Returns the names of the commands that accept options of the group.
    pub fn commands(&self) -> Vec<String> {
        let command = CommandLine::command();
        let accepting = visible_below(&command).filter(|below| self.options(below).next().is_some());
        accepting.map(|below| below.get_name().to_owned()).collect()
    }

    /// Returns a definition whose help is the group's page.
    pub fn page(&self) -> Command {
        let commands = self.commands().join(", ");
        Command::new("headwater")
            .about(self.about)
            .args(self.all_options())
            .disable_help_flag(true)
            .max_term_width(super::visible::COLUMNS_MAX)
            .after_help(format!("Commands with options of this group: {commands}."))
            .help_template("{about}\n\n{all-args}{after-help}")
    }
}

/// Returns the group of this name, if there is one.
pub fn find(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|group| group.name == name)
}

/// Lists the groups, one a line, with the options that this command has of each.
pub fn list(command: &Command) -> String {
    let line = |group: &Group| {
        let options: Vec<String> = group.options(command).filter_map(Arg::get_long).map(|o| format!("--{o}")).collect();
        let page = format!("  headwater help {}", group.name);
        (!options.is_empty()).then(|| wrap(&page, &options))
    };
    let lines: Vec<String> = GROUPS.iter().filter(|group| group.is_apart).filter_map(line).collect();
    format!("Further options, each group with a page of its own:\n{}", lines.join("\n"))
}

/// Puts options behind a page's name, in lines of at most [`super::visible::COLUMNS_MAX`] columns.
fn wrap(page: &str, options: &[String]) -> String {
    const INDENT: usize = 29;
    let mut lines = vec![format!("{page:INDENT$}")];
    for option in options {
        if lines.last().is_some_and(|line| line.len() + option.len() + 2 > super::visible::COLUMNS_MAX) {
            lines.push(" ".repeat(INDENT));
        }
        let line = lines.last_mut().expect("there is a line");
        *line += if line.len() > INDENT { ", " } else { "" };
        *line += option;
    }
    lines.join("\n")
}
