//! A file with defaults: TOML, one key for each option. Any bytes are a file; what is wrong in it is reported by line.

use clap::builder::OsStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{Found, Key, Keys, Kind};

/// Problems that are reported of one file.
const PROBLEMS_MAX: usize = 16;
/// Characters of a key, or of the parser's message, that are shown.
const SHOWN_CHARS_MAX: usize = 100;

/// What a file says.
#[derive(Debug, Default)]
pub struct Parsed {
    /// Valid keys, in the file's order.
    pub settings: Vec<Setting>,
    /// What is wrong, in the file's order. A key with a problem has no setting.
    pub problems: Vec<Problem>,
}

/// A key with its values.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key.
    pub name: String,
    /// As the command line would have them; of a switch `true` or `false`. None stand for the option's own default.
    pub values: Vec<String>,
    /// Its line, from 1.
    pub line: usize,
}

/// Something wrong in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its line, from 1, if it has one.
    pub line: Option<usize>,
    /// What is wrong, and what is wanted.
    pub text: String,
    /// Whether it is wrong in every version of Headwater. An unknown key may be one of a newer version.
    pub is_error: bool,
    /// The variable of the option that it is about, if it is about one.
    pub variable: Option<String>,
}

/// Returns the value of a variable of the environment.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Setting {
    /// Returns the values as defaults for the parser of the command line.
    pub fn defaults(&self) -> impl Iterator<Item = OsStr> {
        self.values.iter().map(|value| OsStr::from(value.clone()))
    }
}

/// Parses a file.
pub fn parse(bytes: &[u8], keys: &Keys, variable: Variable<'_>) -> Parsed {
    let mut parsed = Parsed::default();
    let breaks: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == b'\n').collect();
    let line_of = |at: usize| 1 + breaks.partition_point(|&end| end < at);
    let wrong = |line, text| Problem { line, text, is_error: true, variable: None };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            parsed.problems.push(wrong(Some(line_of(error.valid_up_to())), "the file is not UTF-8".into()));
            return parsed;
        }
    };
    let table = match DeTable::parse(text) {
        Ok(table) => table.into_inner(),
        Err(error) => {
            let line = error.span().map(|span| line_of(span.start));
            parsed.problems.push(wrong(line, format!("the file is not TOML: {}", shown(error.message()))));
            return parsed;
        }
    };
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    for (name, value) in entries {
        let line = line_of(name.span().start);
        if parsed.problems.len() == PROBLEMS_MAX {
            parsed.problems.push(wrong(Some(line), "too many problems: the rest of the file is ignored".into()));
            break;
        }
        match values_of(name.get_ref(), value, keys, variable) {
            Ok(values) => parsed.settings.push(Setting { name: name.get_ref().to_string(), values, line }),
            Err(problem) => parsed.problems.push(Problem { line: Some(line), ..problem }),
        }
    }
    parsed
}

/// Returns a text in one line of limited length.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect()
}

/// Returns a key's values, or the problem, without its line.
fn values_of(
    name: &str,
    value: &Spanned<DeValue<'_>>,
    keys: &Keys,
    variable: Variable<'_>,
) -> Result<Vec<String>, Problem> {
    let named = shown(name);
    let (text, key) = match keys.find(name) {
        Found::Key(key) => match checked(key, value.get_ref(), variable) {
            Ok(values) => return Ok(values),
            Err(wanted) => (format!("`{named}`: {wanted}"), Some(key)),
        },
        Found::Refused(key, why) => (format!("`{named}` can't be set in a file: {why}"), Some(key)),
        Found::Unknown(near) => {
            let near = near.map(|near| format!("; the nearest known one is `{near}`")).unwrap_or_default();
            (format!("the key `{named}` is unknown{near}"), None)
        }
    };
    Err(Problem {
        line: None,
        text,
        is_error: key.is_some(),
        variable: key.map(|key| key.variable.clone()).filter(|name| !name.is_empty()),
    })
}

/// Returns a key's values, or what is wanted in their place.
fn checked(key: &Key, value: &DeValue<'_>, variable: Variable<'_>) -> Result<Vec<String>, String> {
    let values = match (key.kind, value) {
        (Kind::Switch, DeValue::Boolean(is_on)) => return Ok(vec![is_on.to_string()]),
        (Kind::Switch, _) => return Err("write true or false".into()),
        (_, DeValue::Array(items)) if items.is_empty() => return Ok(Vec::new()),
        (Kind::Many, DeValue::Array(items)) => items.iter().map(|item| text_of(item.get_ref())).collect(),
        (_, value) => text_of(value).map(|text| vec![text]),
    };
    let wanted = if key.kind == Kind::Many { "write a text in quotes, or a list" } else { "write a text in quotes" };
    let values = values.ok_or_else(|| wanted.to_owned())?;
    let values: Vec<String> = values.iter().map(|value| expanded(value, variable)).collect::<Result<_, _>>()?;
    values.iter().try_for_each(|value| key.check(value))?;
    Ok(values)
}

/// Returns the text that the command line would have for a value; `None` if it would have none.
fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(i64::from_str_radix(number.as_str(), number.radix()).ok()?.to_string()),
        _ => None,
    }
}

/// Replaces `~/` at the beginning by the home directory, and `$NAME` and `${NAME}` by variables of the environment.
fn expanded(text: &str, variable: Variable<'_>) -> Result<String, String> {
    let value_of = |name: &str| variable(name).ok_or_else(|| format!("the variable {} is not set", shown(name)));
    let mut rest = text;
    let mut made = String::new();
    if let Some(below) = text.strip_prefix("~/") {
        made = value_of("HOME")? + "/";
        rest = below;
    }
    while let Some((before, behind)) = rest.split_once('$') {
        made += before;
        let bare = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(behind.len());
        let (name, then) = match behind.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some(braced) => braced,
            None => behind.split_at(bare),
        };
        made += &if name.is_empty() { String::from("$") } else { value_of(name)? };
        rest = then;
    }
    Ok(made + rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    use crate::options::CommandLine;

    fn read(bytes: &[u8]) -> Parsed {
        let variable = |name: &str| match name {
            "HOME" => Some(String::from("/home/u")),
            "USER" => Some(String::from("u")),
            _ => None,
        };
        parse(bytes, &Keys::of(&CommandLine::command()), &variable)
    }

    fn values(line: &str) -> Vec<String> {
        let parsed = read(line.as_bytes());
        let [Setting { values, line: 1, .. }] = &parsed.settings[..] else { panic!("{line}: {parsed:?}") };
        values.clone()
    }

    #[test]
    fn keys_have_the_options_values() {
        for (line, expected) in [
            ("store-max = \"2G\"", &["2G"][..]),
            ("store-max = 1048576", &["1048576"]),
            ("trees = 0x4", &["4"]),
            ("shared = [\"/sw\", \"~/env\", \"/s/$USER\"]", &["/sw", "/home/u/env", "/s/u"]),
            ("shared = '/sw:/apps'", &["/sw:/apps"]),
            ("shared = []", &[]),
            ("via = []", &[]),
            ("job-dir = '/scratch/${USER}_x$/a~/'", &["/scratch/u_x$/a~/"]),
            ("numa-replicas = true", &["true"]),
            ("numa-replicas = false", &["false"]),
            ("lease = 5", &["5"]),
        ] {
            assert_eq!(values(line), expected, "{line}");
        }
    }

    #[test]
    fn wrong_keys_and_values_are_reported_by_line() {
        for (text, is_error, variable, expected) in [
            (
                "# site\n\nstoer-max = 1",
                false,
                None,
                "the key `stoer-max` is unknown; the nearest known one is `store-max`",
            ),
            ("\n\n[run]\nvia = 'audit'", false, None, "the key `run` is unknown"),
            ("\n\nstays = true", false, None, "the key `stays` is unknown"),
            (
                "\n\nnodes = 4",
                true,
                Some("HEADWATER_NODES"),
                "`nodes` can't be set in a file: it belongs to one command",
            ),
            (
                "\n\nsession = 'x'",
                true,
                Some("HEADWATER_USE_SESSION"),
                "`session` can't be set in a file: it names one",
            ),
            (
                "\n\nstore-max = 'much'",
                true,
                Some("HEADWATER_STORE_MAX"),
                "`store-max`: write a size as 4096, 512M or 2G",
            ),
            ("\n\nstore-max = [1]", true, Some("HEADWATER_STORE_MAX"), "`store-max`: write a text in quotes"),
            ("\n\nshared = 1.5", true, Some("HEADWATER_SHARED"), "`shared`: write a text in quotes, or a list"),
            ("\n\nshared = [['/a']]", true, Some("HEADWATER_SHARED"), "`shared`: write a text in quotes, or a list"),
            ("\n\npush = 'yes'", true, Some("HEADWATER_PUSH"), "`push`: write true or false"),
            ("\n\nstore = '$NONE/x'", true, Some("HEADWATER_STORE"), "`store`: the variable NONE is not set"),
            ("\n\nvia = ", true, None, "the file is not TOML: "),
            ("\n\nvia = 'audit'\nvia = 'audit'", true, None, "the file is not TOML: duplicate key"),
        ] {
            let parsed = read(text.as_bytes());
            let [problem] = &parsed.problems[..] else { panic!("{text}: {parsed:?}") };
            assert_eq!((problem.is_error, problem.variable.as_deref()), (is_error, variable), "{text}");
            assert!(problem.text.starts_with(expected), "{text}: {problem:?}");
            let line = if problem.text.contains("duplicate") { 4 } else { 3 };
            assert_eq!(problem.line, Some(line), "{text}: {problem:?}");
        }
    }

    #[test]
    fn right_lines_count_beside_wrong_ones() {
        let parsed = read(b"trees = 2\nvia = 'air'\nunknown = 1\nshared = '/sw'\n");
        let names: Vec<_> = parsed.settings.iter().map(|setting| (&*setting.name, setting.line)).collect();
        assert_eq!((names, parsed.problems.len()), (vec![("trees", 1), ("shared", 4)], 2));
    }

    #[test]
    fn hostile_files_are_reported() {
        let many: String = (0..9000).map(|n| format!("x{n} = 1\n")).collect();
        for (bytes, problems) in [
            (&b"via = \"\xff\""[..], 1),
            (&[b'['; 65536], 1),
            ("a.".repeat(32_000).as_bytes(), 1),
            (format!("shared = {}", "[".repeat(60_000)).as_bytes(), 1),
            (many.as_bytes(), PROBLEMS_MAX + 1),
            (format!("\"{}\\u001b\" = 1", "k".repeat(60_000)).as_bytes(), 1),
        ] {
            let parsed = read(bytes);
            assert_eq!((parsed.settings.len(), parsed.problems.len()), (0, problems));
            assert!(parsed.problems.iter().all(|problem| problem.text.len() < 300), "{parsed:?}");
            assert!(parsed.problems.iter().all(|problem| !problem.text.contains(char::is_control)));
        }
    }
}
