//! Errors of the command line as one line: the option, the cause, the next step.

use std::error::Error as _;

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Returns an error as one line; `None` for those of which clap's own text has all that is needed. `definition` is that of
/// the command line, `command` the name of the command, `arguments` what was typed.
pub fn complaint(error: &Error, definition: &Command, command: &str, arguments: &[String]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        Some(ContextValue::Strings(texts)) => texts.first().map(String::as_str),
        _ => None,
    };
    let help = format!("`headwater {command} --help` lists the options");
    match error.kind() {
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let option = text(ContextKind::InvalidArg)?;
            let value = text(ContextKind::InvalidValue).unwrap_or_default();
            let name = option.split_whitespace().next()?;
            let wanted = wanted(error);
            if value.is_empty() && error.source().is_none() {
                let step = wanted.unwrap_or_else(|| format!("write {option}"));
                return Some(format!("{name} has no value: {step}"));
            }
            let place = variable_of(definition, command, name, arguments)
                .map_or(format!("{name} {value}"), |variable| format!("{variable}={value}"));
            Some(format!("{place}: {}", wanted.unwrap_or_else(|| "the value is not valid".into())))
        }
        ErrorKind::UnknownArgument => {
            let name = text(ContextKind::InvalidArg)?;
            let step = text(ContextKind::SuggestedArg).map_or(help, |near| format!("the nearest one is {near}"));
            Some(format!("{name} is no option of `headwater {command}`; {step}"))
        }
        ErrorKind::ArgumentConflict => {
            let (one, other) = (text(ContextKind::InvalidArg)?, text(ContextKind::PriorArg)?);
            let [one, other] = [one, other].map(|option| option.split_whitespace().next().unwrap_or(option));
            match one == other {
                true => Some(format!("{one} is there twice: leave one out")),
                false => Some(format!("{one} and {other} exclude each other: write one of them")),
            }
        }
        ErrorKind::InvalidSubcommand => {
            let name = text(ContextKind::InvalidSubcommand)?;
            let near = text(ContextKind::SuggestedSubcommand);
            let step = near.map_or("`headwater help` lists all".into(), |near| format!("the nearest one is `{near}`"));
            Some(format!("`{name}` is no command of headwater; {step}"))
        }
        _ => None,
    }
}

/// Returns what is wanted in place of a wrong value, if the error has it.
pub fn wanted(error: &Error) -> Option<String> {
    match (error.get(ContextKind::ValidValue), error.source()) {
        (Some(ContextValue::Strings(names)), _) if !names.is_empty() => {
            Some(format!("write one of {}", names.join(", ")))
        }
        (_, source) => source.map(ToString::to_string),
    }
}

/// Returns the variable of an option that is not among what was typed.
fn variable_of(definition: &Command, command: &str, name: &str, arguments: &[String]) -> Option<String> {
    let option =
        definition.find_subcommand(command)?.get_arguments().find(|it| it.get_long() == name.strip_prefix("--"))?;
    let short = option.get_short().map(|letter| format!("-{letter}"));
    let names_it = |argument: &String| {
        let is_long = argument.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
        is_long || short.as_ref().is_some_and(|short| argument.starts_with(short))
    };
    let variable = option.get_env()?.to_str()?;
    (!arguments.iter().take_while(|argument| *argument != "--").any(names_it)).then(|| variable.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    use crate::options::CommandLine;

    #[track_caller]
    fn check(arguments: &str, expected: &str) {
        let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        let mut definition = CommandLine::command();
        let error = definition.try_get_matches_from_mut(["headwater".into()].iter().chain(&arguments)).unwrap_err();
        let found = complaint(&error, &definition, &arguments[0], &arguments[1..]);
        assert_eq!(found.as_deref(), Some(expected), "{error}");
    }

    #[test]
    fn the_option_the_cause_and_the_next_step() {
        check("run --nodes x true", "--nodes x: write a number from 1 to 1024");
        check("run --nodes=0 true", "--nodes 0: write a number from 1 to 1024");
        check("run --ppn=-1 true", "--ppn -1: write a number from 1 to 4096");
        check("run --groups 0 true", "--groups 0: write a number of 1 or more");
        check("run --trees 65 true", "--trees 65: write a number from 1 to 64");
        check("run --fan-out 0 true", "--fan-out 0: write a number from 1 to 1024, or binomial");
        check("run --readers 0 true", "--readers 0: write a number of 1 or more, or names such as node[001-128]");
        check("run --store-max much true", "--store-max much: write a size as 4096, 512M or 2G");
        check("run --via air true", "--via air: write one of auto, namespace, audit, mount, off");
        check("run --link-protection none true", "--link-protection none: write one of encrypt, authenticate");
        check("run --map a true", "--map a: write it as FROM=TO: a directory here, and its path on the nodes");
        check("run --ports 9-1 true", "--ports 9-1: write ports as 7000-7099");
        check("run --nodes", "--nodes has no value: write --nodes <N>");
        check("run --via", "--via has no value: write one of auto, namespace, audit, mount, off");
        check("start --lease 0", "--lease 0: write a number from 1 to 100000");
        check("run --shraed /a true", "--shraed is no option of `headwater run`; the nearest one is --shared");
        check("run --zzz true", "--zzz is no option of `headwater run`; `headwater run --help` lists the options");
        check("run --session a --nodes 2 true", "--session and --nodes exclude each other: write one of them");
        check("recrod", "`recrod` is no command of headwater; the nearest one is `record`");
        check("zzz", "`zzz` is no command of headwater; `headwater help` lists all");
        check("run --nodes 1 --nodes 2 true", "--nodes is there twice: leave one out");
    }

    #[test]
    fn a_variable_is_named_if_it_has_the_value() {
        let definition = CommandLine::command();
        let typed = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).into()).collect();
            variable_of(&definition, "run", "--nodes", &arguments)
        };
        assert_eq!(typed(&["--nodes=x"]), None);
        assert_eq!(typed(&["--nodes", "x"]), None);
        assert_eq!(typed(&["--", "app", "--nodes"]).as_deref(), Some("HEADWATER_NODES"));
    }
}
