//! Whether the functions that the overview and the walks name are in the named files.

use std::fs;

use crate::shell::Shell;

/// The pages that name them.
pub const PAGES: [&str; 2] = ["docs/internals/overview.md", "docs/internals/walks.md"];

/// Complaints about such a page with this text: each name in a step of a walk, or in a row of a table, must be in a
/// file that the same line names; a function must be defined there.
pub fn check(shell: &Shell, page: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut step = 0;
    for (line, number) in text.lines().zip(1..) {
        if let Some(this) = line.split_once(". ").and_then(|(this, _)| this.parse().ok()) {
            if this != 1 && this != step + 1 {
                complaints.push(format!("{page}:{number}: step {this} follows step {step}"));
            }
            step = this;
        }
        let code: Vec<_> = line.split('`').skip(1).step_by(2).collect();
        let texts: Vec<_> = code.iter().filter_map(|path| fs::read_to_string(shell.path(path)).ok()).collect();
        if texts.is_empty() {
            continue;
        }
        for name in code.iter().filter_map(|code| name_in(code)) {
            if !texts.iter().any(|text| is_in(text, name)) {
                complaints.push(format!("{page}:{number}: `{name}` is in no file that this line names"));
            }
        }
        for (caller, callee) in arrows(line) {
            let calls = |text: &String| bodies(text, caller).any(|body| has_word(body, callee));
            if !texts.iter().any(calls) {
                complaints.push(format!("{page}:{number}: `{caller}` does not call `{callee}`"));
            }
        }
    }
    complaints
}

/// The last part of a name such as `Type::function`; nothing if the code is no name.
fn name_in(code: &str) -> Option<&str> {
    let is_word = |part: &str| !part.is_empty() && part.chars().all(is_of_name);
    let parts = code.split("::");
    (parts.clone().all(is_word) && (code.contains("::") || code.contains(|c: char| c.is_ascii_lowercase())))
        .then(|| parts.last())?
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The calls that a line claims: `a` → `b`, `c` are two, and a chain goes on from its last function.
fn arrows(line: &str) -> Vec<(&str, &str)> {
    let mut arrows = Vec::new();
    let (mut last, mut caller) = (None, None);
    let mut parts = line.split('`');
    let mut between = parts.next().unwrap_or_default();
    while let Some(code) = parts.next() {
        let name = name_in(code);
        caller = match between {
            " → " => last,
            ", " => caller,
            _ => None,
        };
        arrows.extend(caller.zip(name));
        last = name;
        between = parts.next().unwrap_or_default();
    }
    arrows.retain(|(caller, _)| caller.starts_with(|c: char| c.is_ascii_lowercase()));
    arrows
}

/// The bodies of functions of this name.
fn bodies<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(name).filter_map(move |(at, _)| {
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = text[start..].lines().next().unwrap_or_default();
        let indentation = &line[..line.len() - line.trim_start().len()];
        let end = text[at..].find(&format!("\n{indentation}}}"))?;
        is_in(line, name).then(|| &text[at + name.len()..at + end])
    })
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_of_name) && !text[at + word.len()..].starts_with(is_of_name))
}

/// Whether a source text defines this function, in Rust or in C, or has this type, variant or macro.
fn is_in(text: &str, name: &str) -> bool {
    let is_function = name.starts_with(|c: char| c.is_ascii_lowercase());
    text.lines().any(|line| {
        let is_definition = line.contains("fn ") || !line.starts_with(['\t', ' ', '#', '/']);
        (!is_function || is_definition)
            && line
                .match_indices(name)
                .any(|(at, _)| !line[..at].ends_with(is_of_name) && !line[at + name.len()..].starts_with(is_of_name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_where_they_are_defined() {
        let rust = "impl A {\n    pub fn begin(&self) {\n        end();\n    }\n}\n";
        assert!(is_in(rust, "begin") && !is_in(rust, "end") && !is_in(rust, "beg") && is_in(rust, "A"));
        let c = "static int begin(void)\n{\n\treturn end();\n}\n";
        assert!(is_in(c, "begin") && !is_in(c, "end"));
    }

    #[test]
    fn steps_are_counted() {
        let complaints = check(&Shell::new(false), "p", "1. a\n2. b\nc\n1. d\n2. e\n2. f\n4. g\n");
        assert_eq!(complaints, ["p:6: step 2 follows step 2", "p:7: step 4 follows step 2"]);
    }

    #[test]
    fn calls_are_found_in_bodies() {
        let line = "1. `a.rs`: `A::begin` → `end` → `last`, `other`; `apart`, then `late`. `Flow::X` → `no`";
        assert_eq!(arrows(line), [("begin", "end"), ("end", "last"), ("end", "other")]);
        let text =
            "impl A {\n    fn begin(&self) {\n        end();\n    }\n\n    fn end() {\n        last();\n    }\n}\n";
        let calls = |caller, callee| bodies(text, caller).any(|body| has_word(body, callee));
        assert!(calls("begin", "end") && calls("end", "last") && !calls("begin", "last"));
    }

    #[test]
    fn names_are_told_from_other_code() {
        let of = |code| name_in(code);
        assert_eq!((of("Node::handle"), of("serve"), of("WRAP")), (Some("handle"), Some("serve"), None));
        assert_eq!((of("a/b.rs"), of("--io"), of("")), (None, None, None));
    }
}
