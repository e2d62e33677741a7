//! What `headwater config` prints.

use headwater_figures::text::columns;
use serde_json::{Value, json};

use super::defaults::{Defaults, DefaultsFile, Source};
use super::keys::{Key, Kind};

/// The heading of options without one.
const GENERAL: &str = "General";

/// A key, its values, and where they come from.
struct Row<'a> {
    key: &'a Key,
    values: Vec<String>,
    source: Source<'a>,
}

fn rows<'a>(defaults: &'a Defaults, variable: &dyn Fn(&str) -> Option<String>) -> Vec<Row<'a>> {
    let row = |(key, source): (&'a Key, Source<'a>)| {
        let values = match source {
            Source::Variable => variable(&key.variable).into_iter().collect(),
            Source::File(_, setting) if !setting.values.is_empty() => setting.values.clone(),
            Source::File(..) | Source::BuiltIn => key.built_in(),
        };
        Row { key, values, source }
    };
    let rows: Vec<_> = defaults.sources(variable).into_iter().map(row).collect();
    let mut headings: Vec<&str> = Vec::new();
    for row in &rows {
        if !headings.contains(&heading(row)) {
            headings.push(heading(row));
        }
    }
    let mut rows = rows;
    rows.sort_by_key(|row| headings.iter().position(|name| *name == heading(row)));
    rows
}

fn heading<'a>(row: &Row<'a>) -> &'a str {
    row.key.heading().unwrap_or(GENERAL)
}

/// Returns a table of all keys, in the groups of `--help`.
pub fn table(defaults: &Defaults, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let mut lines = vec![["OPTION", "VALUE", "FROM"].map(String::from).to_vec()];
    let mut above = None;
    for row in rows(defaults, variable) {
        if above != Some(heading(&row)) {
            lines.push(vec![heading(&row).to_owned()]);
            above = Some(heading(&row));
        }
        let value = if row.values.is_empty() { "-".to_owned() } else { row.values.join(" ") };
        let from = match row.source {
            Source::Variable => format!("variable {}", row.key.variable),
            Source::File(file, setting) => format!("{}:{}", file.path.display(), setting.line),
            Source::BuiltIn => "default".into(),
        };
        lines.push(vec![format!("  {}", row.key.name), value, from]);
    }
    columns(&lines, 3)
}

/// Returns a list of the files.
pub fn files(defaults: &Defaults) -> String {
    let row = |file: &DefaultsFile| vec![file.owner.name().into(), file.path.display().to_string(), state(file).into()];
    columns(&defaults.files.iter().map(row).collect::<Vec<_>>(), 3)
}

fn state(file: &DefaultsFile) -> &'static str {
    match (file.is_there, &file.ignored) {
        (false, _) => "absent",
        (true, None) => "read",
        (true, Some(_)) => "ignored",
    }
}

/// Returns all of it as JSON.
pub fn json(defaults: &Defaults, variable: &dyn Fn(&str) -> Option<String>) -> Value {
    let option = |row: Row<'_>| {
        let value = match (row.key.kind, row.source) {
            // A variable may have any text.
            (_, Source::Variable) => json!(row.values.first()),
            (Kind::Switch, _) => json!(row.values.first().is_some_and(|value| value == "true")),
            (Kind::One, _) => json!(row.values.first()),
            (Kind::Many, _) => json!(row.values),
        };
        let (from, path, line) = match row.source {
            Source::Variable => ("variable", None, None),
            Source::File(file, setting) => (file.owner.name(), Some(&file.path), Some(setting.line)),
            Source::BuiltIn => ("default", None, None),
        };
        let variable = Some(&row.key.variable).filter(|name| !name.is_empty());
        json!({"key": row.key.name, "variable": variable, "group": heading(&row), "value": value, "from": from,
               "file": path.map(|path| path.display().to_string()), "line": line})
    };
    let file = |file: &DefaultsFile| {
        json!({"owner": file.owner.name(), "file": file.path.display().to_string(), "state": state(file),
               "why": file.ignored})
    };
    let problem = |(owner, file, problem): (&str, String, &super::file::Problem)| json!({"owner": owner, "file": file, "line": problem.line, "text": problem.text, "is_error": problem.is_error});
    let problems = defaults.files.iter().flat_map(|file| {
        file.problems.iter().map(|problem| (file.owner.name(), file.path.display().to_string(), problem))
    });
    json!({
        "options": rows(defaults, variable).into_iter().map(option).collect::<Vec<_>>(),
        "files": defaults.files.iter().map(file).collect::<Vec<_>>(),
        "problems": problems.map(problem).collect::<Vec<_>>(),
    })
}
