//! The documents' pages about the command line and about variables, in Markdown.

use std::fmt::Write;

use clap::{Arg, Command};

use super::groups::{self, GROUPS};
use super::large::without_groups;
use super::man::usage;
use super::text::{Part, parts};
use super::visible::visible_below;
use super::{pages, variables};

const NOTE: &str = "<!-- `cargo xtask docs` writes this page from the definition of the command line. -->\n";

/// Returns both pages: names of files, and texts.
pub fn pages() -> Vec<(String, String)> {
    let mut command = without_groups().disable_help_flag(true).disable_version_flag(true);
    command.build();
    vec![("command-line.md".into(), command_line(&command)), ("variables.md".into(), variables_page())]
}

fn command_line(command: &Command) -> String {
    let mut text = format!("{NOTE}# Command line\n\n");
    text += "`headwater help COMMAND` prints what this page says of a command. ";
    text += "Nearly every option is also a [variable](variables.md), and many are keys of ";
    text += "[files with defaults](../operate/defaults.md); the command line wins.\n\n";
    text += "| command | what it does |\n|---|---|\n";
    let mut sections = String::new();
    add(command, "headwater", &mut text, &mut sections);
    text += "\nOptions that several commands accept stand in [groups](#groups-of-options) at the end.\n";
    text += &sections;
    text += "\n## Groups of options\n";
    for group in &GROUPS {
        let commands: Vec<String> =
            group.commands().iter().map(|name| format!("[{name}](#headwater-{name})")).collect();
        let _ = write!(text, "\n### {}\n\n{} Commands: {}.\n\n", group.heading, group.about, commands.join(", "));
        table(group.all_options().iter(), &mut text);
    }
    text
}

fn add(command: &Command, name: &str, index: &mut String, sections: &mut String) {
    for below in visible_below(command) {
        let name = format!("{name} {}", below.get_name());
        if visible_below(below).next().is_some() {
            add(below, &name, index, sections);
        } else {
            let _ = writeln!(index, "| [`{name}`](#{}) | {} |", name.replace(' ', "-"), about(below));
            section(below, &name, sections);
        }
    }
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn section(command: &Command, name: &str, text: &mut String) {
    let _ = write!(text, "\n## {name}\n\n{}.\n\n```text\n{}\n```\n", about(command), usage(command));
    if let Some(page) = pages::of(command.get_name()) {
        let path = page.document.strip_prefix("docs/").unwrap_or(page.document);
        let _ = writeln!(text, "\nMore: [{path}](../{path}).");
    }
    let visible: Vec<&Arg> = command.get_arguments().filter(|option| !option.is_hide_set()).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for option in &visible {
        if !headings.contains(&option.get_help_heading()) {
            headings.push(option.get_help_heading());
        }
    }
    headings.sort_by_key(Option::is_some);
    for heading in headings {
        let _ = write!(text, "\n{}", heading.map(|heading| format!("**{heading}**\n\n")).unwrap_or_default());
        table(visible.iter().copied().filter(|option| option.get_help_heading() == heading), text);
    }
    if groups::LARGE.contains(&command.get_name()) {
        let has = |group: &&groups::Group| group.is_apart && group.options(command).next().is_some();
        let link =
            |heading: &str| format!("[{heading}](#{})", heading.to_lowercase().replace('/', "").replace(' ', "-"));
        let links: Vec<String> = GROUPS.iter().filter(has).map(|group| link(group.heading)).collect();
        let _ = writeln!(text, "\nFurther options: {}.", links.join(", "));
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for part in parts(&after) {
        let _ = match part {
            Part::Examples(lines) => write!(text, "\n```\n{}\n```\n", lines.join("\n")),
            Part::Lines(lines) => write!(text, "\n```text\n{}\n```\n", lines.join("\n")),
            Part::ExitStatus(meaning) => writeln!(text, "\n**Exit status**: {meaning}"),
            Part::Prose(prose) => writeln!(text, "\n{prose}"),
        };
    }
}

fn table<'a>(options: impl Iterator<Item = &'a Arg>, text: &mut String) {
    *text += "| option | meaning |\n|---|---|\n";
    for option in options {
        let _ = writeln!(text, "| `{}` | {} |", cell(&label(option)), cell(&meaning(option)));
    }
}

/// How an option is written.
fn label(option: &Arg) -> String {
    let values = option.get_value_names().filter(|_| option.get_action().takes_values());
    let value = values.map(|names| names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" "));
    let short = option.get_short().map(|short| format!("-{short}"));
    let long = option.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let names = (!names.is_empty()).then(|| names.join(", "));
    names.into_iter().chain(value).collect::<Vec<_>>().join(" ")
}

fn meaning(option: &Arg) -> String {
    let mut text = option.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults: Vec<_> = option.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && option.get_action().takes_values() {
        let _ = write!(text, " [default: {}]", defaults.join(" "));
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn variables_page() -> String {
    let mut text = format!("{NOTE}# Variables\n\n");
    text +=
        "Headwater reports a variable of the environment that begins with `HEADWATER_` and that it doesn't know.\n\n";
    text += "## Of options\n\nThe command line wins over a variable, and that over a [file](../operate/defaults.md). ";
    text += "A flag's variable counts unless it is empty, `0`, `n`, `no`, `f`, `false` or `off`. ";
    text += "An empty variable of another option counts as not set.\n\n";
    text += "| variable | option | commands |\n|---|---|---|\n";
    let full = <crate::options::CommandLine as clap::CommandFactory>::command();
    for (name, (commands, option)) in variables::of_options(&full) {
        let _ = writeln!(text, "| `{name}` | `{}` | {} |", cell(&label(&option)), commands.join(", "));
    }
    let inner = |is_inner: bool| variables::SET.iter().filter(move |variable| variable.is_inner == is_inner);
    let lists: [(&str, Vec<&variables::Variable>); 3] = [
        ("Without an option", variables::READ.iter().collect()),
        ("Set for each process", inner(false).collect()),
        ("Set by Headwater for its own libraries", inner(true).collect()),
    ];
    for (heading, list) in lists {
        let _ = write!(text, "\n## {heading}\n\n| variable | meaning |\n|---|---|\n");
        for variable in list {
            let _ = writeln!(text, "| `{}` | {} |", variable.name, cell(variable.about));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_all_commands_and_variables() {
        let pages = pages();
        let [(_, line), (_, variables)] = &pages[..] else { panic!("two pages") };
        assert!(line.contains("\n## headwater io predict\n") && line.contains("](#headwater-io-predict)"), "{line}");
        assert_eq!(line.matches("`--store-max BYTES`").count(), 4, "in its group and in mount, serve and join");
        assert!(line.contains("| `--readers N\\|NODES` |"), "{line}");
        assert!(
            variables.contains("| `HEADWATER_SHARED` | `--shared DIR` | run, start, record, explain |"),
            "{variables}"
        );
        assert!(variables.contains("`HEADWATER_RANK`") && variables.contains("`HEADWATER_LIBDIR`"), "{variables}");
    }
}
