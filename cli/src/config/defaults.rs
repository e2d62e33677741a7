//! Defaults for a command: what the files say, in their order, and how it reaches the parser of the command line.

use std::env;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Arg, Command};

use super::file::{self, Problem, Setting};
use super::keys::{self, Key, Keys, Kind};
use super::places::{self, CONFIG, Content, Owner};
use crate::message::log;
use crate::options::opposites::Given;

/// Commands with options of the same variables that read no file: services have a place of their own.
const WITHOUT: [&str; 2] = ["serve", "join"];

/// All files, and the keys that they may have.
#[derive(Debug, Default)]
pub struct Defaults {
    /// The keys.
    pub keys: Keys,
    /// The files, the one that wins first.
    pub files: Vec<DefaultsFile>,
}

/// One file.
#[derive(Debug)]
pub struct DefaultsFile {
    /// Whose it is.
    pub owner: Owner,
    /// Its path.
    pub path: PathBuf,
    /// Whether it is there.
    pub is_there: bool,
    /// Why it is not used.
    pub ignored: Option<String>,
    /// Its valid keys.
    pub settings: Vec<Setting>,
    /// What is wrong in it.
    pub problems: Vec<Problem>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// The key's variable.
    Variable,
    /// A file, and the key there.
    File(&'a DefaultsFile, &'a Setting),
    /// The definition.
    BuiltIn,
}

impl DefaultsFile {
    fn read(owner: Owner, path: PathBuf, keys: &Keys) -> DefaultsFile {
        let content = places::read(&path, owner);
        let mut read = DefaultsFile {
            owner,
            path,
            is_there: content != Content::Absent,
            ignored: None,
            settings: Vec::new(),
            problems: Vec::new(),
        };
        match content {
            Content::Read(bytes) => {
                let parsed = file::parse(&bytes, keys, &|name| env::var(name).ok());
                (read.settings, read.problems) = (parsed.settings, parsed.problems);
                if owner != Owner::Site {
                    read.refuse_the_sites(keys);
                }
            }
            Content::Absent if owner == Owner::Named => {
                let text = format!("{CONFIG} names it, and it is not there");
                read.problems.push(Problem { line: None, text, is_error: true, variable: None });
            }
            Content::Absent => {}
            Content::Ignored(why) => read.ignored = Some(why),
        }
        read
    }

    /// Takes out settings that only the site's file may have.
    fn refuse_the_sites(&mut self, keys: &Keys) {
        let is_sites = |setting: &Setting| keys.all.iter().any(|key| key.is_sites && key.name == setting.name);
        for setting in self.settings.extract_if(.., |setting| is_sites(setting)) {
            let text = format!("`{}` can't be set in a user's file: {} alone may have it", setting.name, places::SITE);
            self.problems.push(Problem { line: Some(setting.line), text, is_error: true, variable: None });
        }
    }

    /// Returns the problems as lines for people.
    pub fn complaints(&self) -> impl Iterator<Item = (String, Option<&Problem>)> {
        let path = self.path.display();
        let whole = self.ignored.iter().map(move |why| (format!("{path} is ignored: {why}"), None));
        let path = self.path.display();
        let place = move |problem: &Problem| match problem.line {
            Some(line) => format!("{path}:{line}: {}", problem.text),
            None => format!("{path}: {}", problem.text),
        };
        whole.chain(self.problems.iter().map(move |problem| (place(problem), Some(problem))))
    }
}

impl Defaults {
    /// Reads all files. `definition` is that of the command line.
    pub fn read(definition: &Command) -> Defaults {
        Defaults::read_at(places::here(), definition)
    }

    /// Reads all files, if the command of this name has an option to which they may give a default.
    pub fn read_for(definition: &Command, name: &str) -> Defaults {
        let command = definition.find_subcommand(name).filter(|_| !WITHOUT.contains(&name));
        let mut variables = command.into_iter().flat_map(Command::get_arguments).filter_map(Arg::get_env);
        let is_wanted = variables.any(|variable| keys::has_variable(definition, variable));
        if is_wanted { Defaults::read(definition) } else { Defaults::default() }
    }

    fn read_at(places: Vec<(Owner, PathBuf)>, definition: &Command) -> Defaults {
        let keys = Keys::of(definition);
        let files = places.into_iter().map(|(owner, path)| DefaultsFile::read(owner, path, &keys)).collect();
        Defaults { keys, files }
    }

    /// Returns the value that a file gives to a key of one value.
    pub fn value(&self, name: &str) -> Option<&str> {
        let is_it = |(key, _): &(&Key, Source<'_>)| key.name == name;
        match self.sources(&variable).into_iter().find(is_it) {
            Some((_, Source::File(_, setting))) => setting.values.first().map(String::as_str),
            _ => None,
        }
    }

    /// Returns where each key's value comes from, without the command line. A file's key that a higher place makes void
    /// does not count.
    pub fn sources(&self, variable: &dyn Fn(&str) -> Option<String>) -> Vec<(&Key, Source<'_>)> {
        let mut higher: Vec<(&str, Given<'_>)> = Vec::new();
        let mut found: Vec<(&str, Source<'_>)> = Vec::new();
        for key in &self.keys.all {
            let counts = |value: &String| key.kind == Kind::Switch || !value.is_empty();
            if let Some(value) = variable(&key.variable).filter(counts) {
                higher.push((&key.name, Given::new(key.id(), &value)));
                found.push((&key.name, Source::Variable));
            }
        }
        for file in &self.files {
            let given = |setting: &Setting| {
                let key = self.keys.all.iter().find(|key| key.name == setting.name)?;
                Some(Given::new(key.id(), setting.values.first()?))
            };
            let is_void = |setting: &&Setting| {
                let lower = given(setting);
                higher
                    .iter()
                    .any(|(name, above)| *name == setting.name || lower.is_some_and(|lower| above.overrules(lower)))
            };
            let counting: Vec<&Setting> = file.settings.iter().filter(|setting| !is_void(setting)).collect();
            for setting in counting {
                let name = setting.name.as_str();
                found.push((name, Source::File(file, setting)));
                higher.push((name, given(setting).unwrap_or(Given { id: name, is_on_or_number: false })));
            }
        }
        let source = |key: &Key| found.iter().find(|(name, _)| *name == key.name).map(|(_, source)| *source);
        self.keys.all.iter().map(|key| (key, source(key).unwrap_or(Source::BuiltIn))).collect()
    }

    /// Returns the definition, in which the options of this command have the files' defaults.
    pub fn apply(&self, definition: Command, name: &str) -> Command {
        if self.files.iter().all(|file| file.settings.is_empty()) || definition.find_subcommand(name).is_none() {
            return definition;
        }
        let sources = self.sources(&variable);
        let setting = |variable: &str| {
            sources.iter().find_map(|(key, source)| match source {
                Source::File(_, setting) if key.variable == variable => Some((*key, *setting)),
                _ => None,
            })
        };
        definition.mut_subcommand(name, |command| {
            command.mut_args(|option| {
                let found = option.get_env().and_then(|variable| setting(variable.to_str()?));
                let found = found.filter(|(_, setting)| !setting.values.is_empty());
                let Some((key, setting)) = found else { return option };
                // The help's text names the default that the option has by itself.
                let is_hidden = key.kind != Kind::Switch && key.built_in().is_empty();
                option.default_values(setting.defaults()).hide_default_value(is_hidden)
            })
        })
    }

    /// Reports what is wrong in the files, as far as it is about this command. Errors in the user's file end it, as those
    /// in a variable would; users can't mend the site's.
    pub fn report(&self, command: &Command) -> Result<()> {
        let mut errors = Vec::new();
        for file in &self.files {
            for (text, problem) in file.complaints() {
                let is_about = |variable: &String| has(command, variable);
                match problem {
                    Some(problem) if !problem.variable.as_ref().is_none_or(is_about) => {}
                    Some(problem) if problem.is_error && file.owner != Owner::Site => errors.push(text),
                    _ => log(format_args!("warning: {text}")),
                }
            }
        }
        if !errors.is_empty() {
            bail!("{}", errors.join("\nheadwater: "));
        }
        Ok(())
    }
}

/// Returns a variable of the environment, if it is UTF-8; the parser of the command line reports others.
pub fn variable(name: &str) -> Option<String> {
    env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn has(command: &Command, variable: &str) -> bool {
    command.get_arguments().any(|option| option.get_env().is_some_and(|name| name == variable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::fs;
    use tempfile::TempDir;

    use crate::options::CommandLine;

    /// Returns the defaults of a user's file, and of another one that stands for the site's.
    fn defaults(user: &str, site: &str) -> (TempDir, Defaults) {
        let directory = tempfile::tempdir().unwrap();
        let place = |owner, name, text| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            (owner, path)
        };
        let places = vec![place(Owner::User, "user.toml", user), place(Owner::User, "site.toml", site)];
        let mut defaults = Defaults::read_at(places, &CommandLine::command());
        defaults.files[1].owner = Owner::Site;
        (directory, defaults)
    }

    /// Returns the values of a key, and where they come from.
    fn value(defaults: &Defaults, name: &str, variables: &[(&str, &str)]) -> (String, String) {
        let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string());
        let (key, source) = defaults.sources(&variable).into_iter().find(|(key, _)| key.name == name).unwrap();
        match source {
            Source::Variable => (variable(&key.variable).unwrap(), "variable".into()),
            Source::File(file, setting) => {
                (setting.values.join(" "), format!("{}:{}", file.owner.name(), setting.line))
            }
            Source::BuiltIn => (key.built_in().join(" "), "default".into()),
        }
    }

    #[test]
    fn higher_places_win() {
        let user = "store-max = '2G'\nshared = ['/u', '/v']\nnuma-replicas = false\ncache = []";
        let site = "store-max = '1G'\nshared = '/sw'\nnuma-replicas = true\nports = '1-9'\ncache = '/tmp'";
        let (_files, defaults) = defaults(user, site);
        let variables = [("HEADWATER_STORE_MAX", "4G"), ("HEADWATER_PUSH", "0")];
        for (name, expected) in [
            ("store-max", ("4G", "variable")),
            ("push", ("0", "variable")),
            ("shared", ("/u /v", "user:2")),
            ("numa-replicas", ("false", "user:3")),
            ("cache", ("", "user:4")),
            ("ports", ("1-9", "site:4")),
            ("via", ("auto", "default")),
            ("pull", ("false", "default")),
            ("trees", ("", "default")),
        ] {
            assert_eq!(value(&defaults, name, &variables), (expected.0.into(), expected.1.into()), "{name}");
        }
        assert_eq!(value(&defaults, "store-max", &[]), ("2G".into(), "user:1".into()));
    }

    #[test]
    fn a_higher_place_makes_opposites_void() {
        let (_files, defaults) =
            defaults("push = true\nfan-out = 4", "pull = true\ngroups = 2\nreaders = 3\nsummary = true");
        let from = |name, variables| value(&defaults, name, variables).1;
        assert_eq!((from("push", &[]), from("pull", &[])), ("user:1".into(), "default".into()));
        let shape = ["fan-out", "groups", "readers"];
        assert_eq!(shape.map(|name| from(name, &[])), ["user:2", "default", "default"]);
        let trees = [("HEADWATER_TREES", "4")];
        assert_eq!(shape.map(|name| from(name, &trees)), ["default"; 3]);
        let pull = [("HEADWATER_PULL", "1"), ("HEADWATER_NO_SUMMARY", "1")];
        assert_eq!(["push", "pull", "summary"].map(|name| from(name, &pull)), ["default", "variable", "default"]);
    }

    #[test]
    fn files_are_defaults_of_each_command_with_the_variable() {
        let (_files, defaults) =
            defaults("", "via = []\nstore = '/s'\nshared = ['/a', '/b']\npush = true\ntrees = 2\nlease = 7");
        let definition = crate::help::command();
        let parse = |arguments: &[&str]| {
            let command = defaults.apply(definition.clone(), arguments[0]);
            let matches = command.try_get_matches_from(["headwater"].iter().chain(arguments)).unwrap();
            matches.subcommand_matches(arguments[0]).unwrap().clone()
        };
        let run = parse(&["run", "--store", "/t", "true"]);
        let path = |matches: &clap::ArgMatches, id: &str| matches.get_one::<PathBuf>(id).unwrap().display().to_string();
        assert_eq!(path(&run, "store"), "/t");
        assert_eq!(run.get_many::<PathBuf>("shared").unwrap().count(), 2);
        assert_eq!((run.get_flag("push"), run.get_one::<u32>("trees")), (true, Some(&2)));
        assert_eq!(path(&parse(&["stats"]), "store"), "/s");
        assert_eq!(parse(&["start"]).get_one::<u32>("lease"), Some(&7));
        let read_for = |name| Defaults::read_for(&definition, name).keys.all.len();
        assert_eq!((read_for("serve"), read_for("join"), read_for("simulate"), read_for("none")), (0, 0, 0, 0));
        assert!(
            ["run", "start", "record", "mount", "stop", "doctor", "closures"].iter().all(|name| read_for(name) > 0)
        );
    }

    #[test]
    fn errors_of_the_user_end_commands_that_have_the_option() {
        let definition = CommandLine::command();
        let ends = |user: &str, site: &str, name: &str| {
            let (_files, defaults) = defaults(user, site);
            defaults.report(definition.find_subcommand(name).unwrap()).err().map(|error| error.to_string())
        };
        let why = ends("\nvia = 'air'", "", "run").unwrap();
        assert!(why.contains("user.toml:2: `via`: write one of auto, "), "{why}");
        assert!(ends("via = 'air'", "", "stats").is_none() && ends("store = 1.5", "", "stats").is_some());
        assert!(ends("via = ", "", "stats").is_some() && ends("nodes = 1", "", "run").is_some());
        assert!(ends("unknown = 1", "via = 'air'\nnodes = 1\n[", "run").is_none());
    }
}
