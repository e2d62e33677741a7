//! The keys of files with defaults, from the definition of the command line.

use std::ffi::OsStr;

use clap::builder::Resettable;
use clap::{Arg, ArgAction, Command};

use super::usage_log;
use crate::help::variables::nearest;
use crate::options::complaint::wanted;

/// The commands whose options are keys.
const COMMANDS: [&str; 2] = ["run", "start"];
/// Options that are no keys, and why.
const REFUSED: [(&str, &str); 5] = [
    ("nodes", "it belongs to one command"),
    ("ppn", "it belongs to one command"),
    ("session", "it names one session"),
    ("sealed", "it names the files of one program"),
    ("show-scope", "no program would run"),
];

/// Longer names have no nearest key, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// All keys.
#[derive(Debug, Default)]
pub struct Keys {
    /// Keys that can be set, in the order of the definition.
    pub all: Vec<Key>,
    refused: Vec<(Key, &'static str)>,
}

/// A key: an option that can have a default.
#[derive(Debug)]
pub struct Key {
    /// Its name, the option's long one.
    pub name: String,
    /// The option's variable; empty if it has none.
    pub variable: String,
    /// How many values it takes.
    pub kind: Kind,
    /// Whether it is no option's: the site's file alone may have it, and it has no variable.
    pub is_sites: bool,
    option: Arg,
}

/// How many values an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None: it is on or off.
    Switch,
    /// One.
    One,
    /// Any number.
    Many,
}

/// What a name is.
#[derive(Debug)]
pub enum Found<'a> {
    /// A key.
    Key(&'a Key),
    /// An option that is no key, and why.
    Refused(&'a Key, &'static str),
    /// No option; with the nearest key.
    Unknown(Option<&'a str>),
}

/// Returns whether a variable is one of an option whose name may be a key.
pub fn has_variable(definition: &Command, variable: &OsStr) -> bool {
    let commands = COMMANDS.iter().filter_map(|name| definition.find_subcommand(name));
    commands.flat_map(Command::get_arguments).any(|option| option.get_env() == Some(variable))
}

impl Keys {
    /// Returns the keys that the definition has.
    pub fn of(definition: &Command) -> Keys {
        let mut keys = Keys::default();
        let commands = COMMANDS.iter().filter_map(|name| definition.find_subcommand(name));
        for key in commands.flat_map(Command::get_arguments).filter_map(Key::of) {
            let is_known = keys.all.iter().chain(keys.refused.iter().map(|(key, _)| key)).any(|k| k.name == key.name);
            match REFUSED.iter().find(|(name, _)| *name == key.name) {
                _ if is_known => {}
                Some((_, why)) => keys.refused.push((key, why)),
                None => keys.all.push(key),
            }
        }
        keys.all.push(Key::of_site());
        keys
    }

    /// Returns what a name is.
    pub fn find(&self, name: &str) -> Found<'_> {
        let refused = || self.refused.iter().find(|(key, _)| key.name == name);
        match (self.all.iter().find(|key| key.name == name), refused()) {
            (Some(key), _) => Found::Key(key),
            (None, Some((key, why))) => Found::Refused(key, why),
            _ if name.len() > NAME_BYTES_MAX => Found::Unknown(None),
            _ => Found::Unknown(nearest(name, self.all.iter().map(|key| key.name.as_str()))),
        }
    }
}

impl Key {
    /// Returns the option's key; `None` if the option has no long name or no variable.
    fn of(option: &Arg) -> Option<Key> {
        let kind = match option.get_action() {
            ArgAction::SetTrue => Kind::Switch,
            ArgAction::Append => Kind::Many,
            _ => Kind::One,
        };
        let name = option.get_long()?.to_owned();
        let variable = option.get_env()?.to_str()?.to_owned();
        let option = option.clone().env(Resettable::Reset);
        Some(Key { name, variable, kind, is_sites: false, option })
    }

    /// Returns the site's own key.
    fn of_site() -> Key {
        let option = Arg::new(usage_log::KEY).long(usage_log::KEY).value_parser(usage_log::parse);
        Key { name: usage_log::KEY.into(), variable: String::new(), kind: Kind::One, is_sites: true, option }
    }

    /// Returns the option's name in the definition.
    pub fn id(&self) -> &str {
        self.option.get_id().as_str()
    }

    /// Returns the heading of the option's group in `--help`.
    pub fn heading(&self) -> Option<&str> {
        self.option.get_help_heading()
    }

    /// Returns the values that the option has by itself. Of some, the default depends on the machine: there is none here.
    pub fn built_in(&self) -> Vec<String> {
        match self.kind {
            Kind::Switch => vec![String::from("false")],
            _ => self.option.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect(),
        }
    }

    /// Returns what is wanted in place of this value, if the option's parser refuses it.
    pub fn check(&self, value: &str) -> Result<(), String> {
        let command = Command::new("headwater").arg(self.option.clone());
        let argument = format!("--{}={value}", self.name);
        command
            .try_get_matches_from(["headwater", &argument])
            .map(|_| ())
            .map_err(|error| wanted(&error).unwrap_or_else(|| "the value is not valid".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    use crate::options::CommandLine;

    #[test]
    fn each_option_is_a_key_or_refused() {
        let definition = CommandLine::command();
        let keys = Keys::of(&definition);
        for command in COMMANDS.map(|name| definition.find_subcommand(name).unwrap()) {
            for option in command.get_arguments().filter(|option| !option.is_positional() && !option.is_hide_set()) {
                let name = option.get_long().unwrap();
                assert!(!matches!(keys.find(name), Found::Unknown(_)), "{name}");
            }
        }
        assert!(REFUSED.iter().all(|(name, _)| matches!(keys.find(name), Found::Refused(..))));
        assert!(matches!(keys.find("stays"), Found::Unknown(_)) && matches!(keys.find("program"), Found::Unknown(_)));
        assert!(matches!(keys.find("stoer-max"), Found::Unknown(Some("store-max"))));
        assert!(matches!(keys.find("entirely-different"), Found::Unknown(None)));
    }

    #[test]
    fn values_are_the_options() {
        let keys = Keys::of(&CommandLine::command());
        // A key that can't be checked alone would panic.
        keys.all.iter().for_each(|key| drop(key.check("1")));
        for (name, value, expected) in [
            ("store-max", "2G", None),
            ("store-max", "much", Some("write a size as 4096, 512M or 2G")),
            ("trees", "65", Some("write a number from 1 to 64")),
            ("via", "air", Some("write one of auto, namespace")),
            ("link-protection", "none", Some("write one of encrypt, authenticate")),
            ("shared", "/a:/b", None),
            ("transport", "-x", Some("")),
        ] {
            let Found::Key(key) = keys.find(name) else { panic!("{name} is a key") };
            let found = key.check(value).err();
            assert_eq!(found.is_some(), expected.is_some(), "{name} {value}: {found:?}");
            assert!(found.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{name} {value}");
        }
        let kind = |name| match keys.find(name) {
            Found::Key(key) => (key.kind, key.built_in()),
            _ => panic!("{name} is a key"),
        };
        assert_eq!(kind("shared"), (Kind::Many, vec![]));
        assert_eq!(kind("via"), (Kind::One, vec!["auto".into()]));
        assert_eq!(kind("numa-replicas"), (Kind::Switch, vec!["false".into()]));
    }
}
