//! Man pages: one for each command, and headwater-options(7) for the groups of options.

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;
use roff::{Roff, bold, italic, roman};

use super::groups::{self, GROUPS};
use super::large::without_groups;
use super::text::{Part, parts};
use super::visible::visible_below;
use super::{pages, variables};
use crate::options::CommandLine;

/// The page of the groups.
const OPTIONS: &str = "headwater-options";

/// Returns all pages: names of files, and texts.
pub fn pages() -> Vec<(String, String)> {
    let mut command = without_groups().disable_help_flag(true).disable_version_flag(true);
    command.build();
    let mut pages = vec![(format!("{OPTIONS}.7"), options_page())];
    add(&command, "headwater", &mut pages);
    pages
}

fn add(command: &Command, name: &str, pages: &mut Vec<(String, String)>) {
    pages.push((format!("{name}.1"), page(command, name)));
    for below in visible_below(command) {
        add(below, &format!("{name}-{}", below.get_name()), pages);
    }
}

fn page(command: &Command, name: &str) -> String {
    let mut page = title(name, "1", &about(command));
    let usage = usage(command);
    let command_name = name.replace('-', " ");
    let rest = usage.strip_prefix(&command_name).unwrap_or_default().to_owned();
    page.control("SH", ["SYNOPSIS"]).text([bold(command_name), roman(rest)]);
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let parts = parts(&text);
    page.control("SH", ["DESCRIPTION"]);
    let long = command.get_long_about().map_or_else(|| about(command) + ".", ToString::to_string);
    page.text([roman(long)]);
    for part in &parts {
        match part {
            Part::Prose(text) => page.control("PP", []).text([roman(*text)]),
            Part::Lines(lines) => verbatim(&mut page, lines),
            Part::Examples(_) | Part::ExitStatus(_) => &mut page,
        };
    }
    let mut made = page.to_roff();
    made += &rendered(|out| Man::new(command.clone()).render_options_section(out), has_options(command));
    if visible_below(command).next().is_some() {
        made += &commands(command, name).to_roff();
    }
    let mut page = Roff::new();
    if groups::LARGE.contains(&command.get_name()) {
        page.control("SH", ["FURTHER OPTIONS"]);
        page.text([roman("Groups of options with a section each in "), bold(OPTIONS), roman("(7):")]);
        let full = full(command.get_name());
        for group in GROUPS.iter().filter(|group| group.is_apart) {
            let names: Vec<String> =
                group.options(&full).filter_map(Arg::get_long).map(|long| format!("--{long}")).collect();
            if !names.is_empty() {
                page.control("TP", []).text([bold(group.heading)]).text([roman(names.join(", "))]);
            }
        }
    }
    for part in &parts {
        match part {
            Part::ExitStatus(text) => {
                page.control("SH", ["EXIT STATUS"]).text([roman(*text)]);
            }
            Part::Examples(lines) => {
                verbatim(page.control("SH", ["EXAMPLES"]), lines);
            }
            Part::Prose(_) | Part::Lines(_) => {}
        }
    }
    environment(&mut page, command);
    environment_and_files(&mut page, command, name);
    made + &page.to_roff()
}

fn title(name: &str, section: &str, about: &str) -> Roff {
    let mut page = Roff::new();
    let version = format!("headwater {}", env!("CARGO_PKG_VERSION"));
    page.control("TH", [name.to_uppercase().as_str(), section, "", &version, "Headwater"]);
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    page
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// Returns how the command is written.
pub fn usage(command: &Command) -> String {
    let text = command.clone().render_usage().to_string();
    text.strip_prefix("Usage: ").unwrap_or(&text).trim().to_owned()
}

fn has_options(command: &Command) -> bool {
    command.get_arguments().any(|option| !option.is_hide_set())
}

fn rendered(render: impl Fn(&mut Vec<u8>) -> std::io::Result<()>, is_wanted: bool) -> String {
    let mut out = Vec::new();
    if is_wanted {
        render(&mut out).expect("memory takes what is written");
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn verbatim<'a>(page: &'a mut Roff, lines: &[&str]) -> &'a mut Roff {
    page.control("PP", []).control("RS", ["4"]).control("nf", []);
    for line in lines {
        page.text([roman(*line)]);
    }
    page.control("fi", []).control("RE", [])
}

fn commands(command: &Command, name: &str) -> Roff {
    let mut page = Roff::new();
    page.control("SH", ["COMMANDS"]);
    for below in visible_below(command) {
        page.control("TP", []).text([bold(format!("{name}-{}", below.get_name())), roman("(1)")]);
        page.text([roman(about(below))]);
    }
    page
}

/// Returns the command of this name with all its options.
fn full(name: &str) -> Command {
    CommandLine::command().find_subcommand(name).expect("it is a command").clone()
}

fn environment(page: &mut Roff, command: &Command) {
    let is_large = groups::LARGE.contains(&command.get_name());
    let all = if is_large { full(command.get_name()) } else { command.clone() };
    let options = variables::of_options(&all);
    let starts_daemons = all.get_arguments().any(|option| option.get_long() == Some("store-max"));
    let has_other = |name: &str| match name {
        "HEADWATER_LIBDIR" | "HEADWATER_LOG" => starts_daemons,
        "HEADWATER_CONFIG" => is_large || command.get_name() == "config",
        _ => false,
    };
    let others: Vec<_> = variables::READ.iter().filter(|variable| has_other(variable.name)).collect();
    if visible_below(command).next().is_some() || (options.is_empty() && others.is_empty()) {
        return;
    }
    page.control("SH", ["ENVIRONMENT"]).text([roman("The command line wins over a variable.")]);
    for (name, (_, option)) in options {
        let long = option.get_long().unwrap_or_default();
        page.control("TP", []).text([bold(name)]).text([roman("The same as "), bold(format!("--{long}")), roman(".")]);
    }
    for variable in others {
        page.control("TP", []).text([bold(variable.name)]).text([roman(variable.about)]);
    }
    if is_large && command.get_name() != "start" {
        page.control("PP", []).text([roman("Each process of the program finds these:")]);
        for variable in variables::SET.iter().filter(|variable| !variable.is_inner) {
            page.control("TP", []).text([bold(variable.name)]).text([roman(variable.about)]);
        }
    }
}

/// Adds the sections FILES and SEE ALSO.
fn environment_and_files(page: &mut Roff, command: &Command, name: &str) {
    let of = pages::of(command.get_name());
    let files = of.map_or(&[][..], |page| page.files);
    if !files.is_empty() {
        page.control("SH", ["FILES"]);
    }
    for (path, about) in files {
        page.control("TP", []).text([italic(*path)]).text([roman(*about)]);
    }
    page.control("SH", ["SEE ALSO"]);
    let related = of.map_or(&[][..], |page| page.related).iter().map(|related| format!("headwater-{related}(1)"));
    let parent = name.rsplit_once('-').map(|(parent, _)| format!("{parent}(1)"));
    let options = (name == "headwater" || groups::LARGE.contains(&command.get_name())).then(|| format!("{OPTIONS}(7)"));
    let all: Vec<String> = parent.into_iter().chain(related).chain(options).collect();
    page.text([roman(all.join(", "))]);
    let document = of.map_or(pages::REFERENCE, |page| page.document);
    page.control("PP", []).text([italic(format!("PREFIX/{}/{document}", pages::INSTALLED))]);
}

fn options_page() -> String {
    let mut page = title(OPTIONS, "7", "options that several commands of headwater accept");
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "headwater run, start and record accept options of all these groups; other commands accept those of some. \
         `headwater help GROUP` prints a group.",
    )]);
    let mut made = page.to_roff();
    for group in &GROUPS {
        let command = Command::new("headwater").args(group.all_options()).disable_help_flag(true);
        let section = rendered(|out| Man::new(command.clone()).render_options_section(out), true);
        let (heading, options) = section.split_once('\n').expect("a section has a heading");
        let mut about = Roff::new();
        about.text([roman(group.about)]);
        about.control("PP", []);
        about.text([roman(format!("Group: {}. Commands: {}.", group.name, group.commands().join(", ")))]);
        made += &format!("{heading}\n{}{options}", about.to_roff());
    }
    let mut end = Roff::new();
    end.control("SH", ["SEE ALSO"])
        .text([roman("headwater(1), headwater-run(1), headwater-start(1), headwater-record(1)")]);
    made + &end.to_roff()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> String {
        let pages = pages();
        let (_, text) = pages.into_iter().find(|(file, _)| file == name).unwrap_or_else(|| panic!("no {name}"));
        text
    }

    #[test]
    fn sections_are_complete() {
        let run = text("headwater-run.1");
        for section in
            ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"EXIT STATUS\"", "EXAMPLES", "ENVIRONMENT", "FILES"]
        {
            assert!(run.contains(&format!("\n.SH {section}\n")), "{section}: {run}");
        }
        assert!(run.contains("headwater run\\fR [OPTIONS]") && run.contains("\n.SH \"SEE ALSO\"\n"), "{run}");
        // Options of a group stand on its page; their variables and names stand here.
        assert!(run.contains("HEADWATER_STORE_MAX") && !run.contains("node\\*(Aqs store holds"), "{run}");
        assert!(text("headwater-options.7").contains("\\-\\-store\\-max"));
        assert!(text("headwater-io-predict.1").contains(".SH SYNOPSIS\n\\fBheadwater io predict\\fR"));
        assert!(text("headwater.1").contains("headwater\\-run"));
    }
}
