//! Which modules a file of Rust declares, and what it takes from others of its crate.

use std::collections::BTreeSet;

use super::text::{Language, blank};

/// A file's declarations and paths. Modules for tests are left out.
#[derive(Debug, Default)]
pub struct Imports {
    /// Modules that the file declares and that have files of their own.
    pub children: BTreeSet<String>,
    /// Those of them that exist for tests only.
    pub test_children: BTreeSet<String>,
    /// Each path that a `use` names, and each in other code that begins with `crate`, `super`, `self` or one
    /// of the children.
    pub paths: Vec<Import>,
}

/// One path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Its segments; a glob's last one is `*`.
    pub path: Vec<String>,
    /// The name in this file; empty outside of a `use`.
    pub name: String,
    /// Whether the file exports the name.
    pub is_reexport: bool,
}

impl Imports {
    /// Whether a path that begins so is one of this crate.
    fn is_of_crate(&self, first: &str) -> bool {
        matches!(first, "crate" | "super" | "self") || self.children.contains(first)
    }
}

/// Reads a file of Rust.
pub fn read(source: &str) -> Imports {
    let code = blank(source, Language::Rust);
    let tokens = tokens(&code);
    let mut imports = Imports::default();
    // Of modules inside the file: how many braces are open outside of each.
    let mut inside = Vec::new();
    let mut depth = 0;
    let mut at = 0;
    while at < tokens.len() {
        let count = imports.paths.len();
        let before = at.checked_sub(1).map_or("", |before| tokens[before]);
        match tokens[at..] {
            ["#", "[", "cfg", "(", "test", ..] | ["#", "[", "cfg", "(", "all", "(", "test", ..] => {
                let end = item_end(&tokens, at);
                let module = tokens[at..end].windows(3).find(|w| w[0] == "mod" && w[2] == ";");
                imports.test_children.extend(module.map(|module| module[1].to_owned()));
                at = end;
            }
            ["mod", name, ";", ..] => {
                imports.children.insert(name.to_owned());
                at += 3;
            }
            ["use", next, ..] if next != "<" => {
                at += 1;
                tree(&tokens, &mut at, &[], before == "pub" || before == ")", &mut imports.paths);
            }
            [first, "::", ..] if !matches!(before, "in" | "::") && imports.is_of_crate(first) => {
                let path = path(&tokens, &mut at);
                imports.paths.push(Import { name: String::new(), path, is_reexport: false });
            }
            ["mod", _, "{", ..] => {
                inside.push(depth);
                at += 2;
            }
            [token, ..] => {
                depth += usize::from(token == "{");
                depth -= usize::from(token == "}" && depth > 0);
                if token == "}" && inside.last() == Some(&depth) {
                    inside.pop();
                }
                at += 1;
            }
            [] => break,
        }
        for import in &mut imports.paths[count..] {
            leave(&mut import.path, inside.len());
        }
    }
    imports
}

/// Identifiers, `::`, and all else a character at a time.
fn tokens(code: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// The end of the item at `at`: after its first semicolon or its first block.
fn item_end(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0;
    for (offset, token) in tokens[at..].iter().enumerate() {
        match *token {
            "{" => depth += 1,
            "}" => depth -= 1,
            ";" => {}
            _ => continue,
        }
        if depth == 0 {
            return at + offset + 1;
        }
    }
    tokens.len()
}

/// Makes a path of a module inside the file, at this depth, one of the file.
fn leave(path: &mut Vec<String>, depth: usize) {
    let supers = path.iter().take_while(|segment| *segment == "super").count().min(depth);
    let is_of_file = path.get(supers).is_none_or(|next| next != "super");
    if supers > 0 {
        path.splice(..supers, is_of_file.then(|| "self".to_owned()));
    }
}

/// The path at `at`.
fn path(tokens: &[&str], at: &mut usize) -> Vec<String> {
    let mut path = vec![tokens[*at].to_owned()];
    *at += 1;
    while let ["::", segment, ..] = tokens[*at..]
        && segment != "{"
        && segment != "<"
    {
        path.push(segment.to_owned());
        *at += 2;
    }
    path
}

/// Adds each path of the `use` tree at `at`, which begins with `prefix`.
fn tree(tokens: &[&str], at: &mut usize, prefix: &[String], is_reexport: bool, paths: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    let mut name = None;
    while let Some(&token) = tokens.get(*at) {
        match token {
            "," | ";" | "}" => break,
            "::" => {}
            "as" => {
                *at += 1;
                name = tokens.get(*at).map(|&alias| alias.to_owned());
            }
            "{" => {
                while !matches!(tokens.get(*at), None | Some(&"}")) {
                    *at += 1;
                    tree(tokens, at, &path, is_reexport, paths);
                }
                *at += 1;
                return;
            }
            "self" if !path.is_empty() => name = path.last().cloned(),
            segment => {
                path.push(segment.to_owned());
                name = Some(segment.to_owned());
            }
        }
        *at += 1;
    }
    // A list may end in a comma.
    paths.extend(name.map(|name| Import { path, name, is_reexport }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &[&str]) {
        let paths: Vec<String> = read(source).paths.into_iter().map(|import| import.path.join("::")).collect();
        assert_eq!(paths, expected, "{source}");
    }

    #[test]
    fn paths() {
        check("use crate::a::B;\nuse std::fmt;", &["crate::a::B", "std::fmt"]);
        check(
            "use super::{\n    a::{self, B, c::*},\n    D as E,\n};",
            &["super::a", "super::a::B", "super::a::c::*", "super::D"],
        );
        check(
            "pub(in crate::a) fn f() -> crate::b::C { super::super::g::<u8>() }",
            &["crate::b::C", "super::super::g"],
        );
        check("fn f() -> impl Iterator + use<'_> {\n    use self::a::B;\n}", &["self::a::B"]);
        check(
            "mod a {\n    use super::B;\n    use super::super::C;\n}\nuse super::D;",
            &["self::B", "super::C", "super::D"],
        );
        check("mod a;\nfn f() { a::g(b::a::h()); }", &["a::g"]);
        check("// use crate::a;\nconst S: &str = \"use crate::b;\";", &[]);
    }

    #[test]
    fn tests_are_left_out() {
        check(
            "use a::B;\n#[cfg(test)]\nmod tests {\n    use super::*;\n    fn f() {}\n}\nuse a::C;",
            &["a::B", "a::C"],
        );
        let imports =
            read("mod a;\npub mod b;\n#[cfg(test)]\nmod tests;\nmod c {}\n#[cfg(all(test, unix))]\nfn f() { let a; }");
        assert_eq!(imports.children.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(imports.test_children.into_iter().collect::<Vec<_>>(), ["tests"]);
    }

    #[test]
    fn names() {
        let names = |source: &str| -> Vec<(String, bool)> {
            read(source).paths.into_iter().map(|import| (import.name, import.is_reexport)).collect()
        };
        assert_eq!(names("pub(crate) use a::{b::{self}, C as D};"), [("b".to_owned(), true), ("D".to_owned(), true)]);
        assert_eq!(names("use a::B;"), [("B".to_owned(), false)]);
    }
}
