//! The parts of a Markdown page that the checks need: its links, its anchors, its command lines.

use std::collections::BTreeSet;

/// Languages of code blocks that contain command lines.
const SHELLS: [&str; 5] = ["", "bash", "console", "sh", "shell"];

/// The contents of a page.
#[derive(Debug, Default)]
pub struct Page {
    /// Targets of links and pictures, each with its line.
    pub links: Vec<(usize, String)>,
    /// Anchors that links can name.
    pub anchors: BTreeSet<String>,
    /// Code that may be command lines.
    pub code: Vec<Code>,
}

/// A line of code.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// The line where it is.
    pub line: usize,
    /// Its text; lines that end in a backslash continue.
    pub text: String,
    /// Whether it is in a sentence, and may leave arguments out.
    pub is_inline: bool,
}

/// Reads a page.
pub fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut fence: Option<(String, bool)> = None;
    let mut continued: Option<Code> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let bare = line.trim_start();
        match &fence {
            Some((marks, _)) if bare.starts_with(&**marks) => fence = None,
            Some((_, is_shell)) => {
                let start = Code { line: number, text: String::new(), is_inline: false };
                let mut code = continued.take().unwrap_or(start);
                code.text += bare.strip_suffix('\\').unwrap_or(bare);
                if bare.ends_with('\\') {
                    continued = Some(code);
                } else if *is_shell {
                    page.code.push(code);
                }
            }
            None if bare.starts_with("```") || bare.starts_with("~~~") => {
                let marks: String = bare.chars().take_while(|c| "`~".contains(*c)).collect();
                let language = bare[marks.len()..].split([' ', ',']).next().unwrap_or_default();
                fence = Some((marks, SHELLS.contains(&language)));
            }
            None => prose(number, line, &mut page),
        }
    }
    page
}

fn prose(number: usize, line: &str, page: &mut Page) {
    if let Some(heading) = line.strip_prefix('#') {
        let slug = slug(heading.trim_start_matches('#').trim());
        let taken = (1..).map(|n| format!("{slug}-{n}")).find(|name| !page.anchors.contains(name));
        page.anchors.insert(if page.anchors.contains(&slug) { taken.expect("numbers don't end") } else { slug });
    }
    let (text, code) = without_code(line);
    page.code.extend(code.into_iter().map(|text| Code { line: number, text, is_inline: true }));
    for (at, _) in text.match_indices("](") {
        page.links.extend(target(&text[at + 2..]).map(|target| (number, target)));
    }
    if let Some((_, target)) = text.split_once("]: ").filter(|_| text.starts_with('[')) {
        page.links.extend(target.split_whitespace().next().map(|target| (number, target.to_owned())));
    }
    for (attribute, is_anchor) in [("href=\"", false), ("src=\"", false), ("id=\"", true), ("name=\"", true)] {
        for value in text.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()) {
            if is_anchor {
                page.anchors.insert(value.to_owned());
            } else {
                page.links.push((number, value.to_owned()));
            }
        }
    }
}

/// The line with its code spans blanked, and the spans.
fn without_code(line: &str) -> (String, Vec<String>) {
    let (mut text, mut spans) = (String::new(), Vec::new());
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let marks = rest[at..].bytes().take_while(|&byte| byte == b'`').count();
        let (before, after) = (&rest[..at], &rest[at + marks..]);
        text += before;
        let Some(end) = after.find(&rest[at..at + marks]) else {
            return (text + after, spans);
        };
        spans.push(after[..end].trim().to_owned());
        text += &" ".repeat(end);
        rest = &after[end + marks..];
    }
    (text + rest, spans)
}

/// The target at the start of what follows `](`, without a title.
fn target(text: &str) -> Option<String> {
    let mut depth = 1;
    let end = text.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        (depth == 0).then_some(at)
    })?;
    text[..end].split_whitespace().next().map(|target| target.trim_matches(['<', '>']).to_owned())
}

/// The anchor of a heading, as GitHub and mdbook make it.
fn slug(heading: &str) -> String {
    // Of a link in a heading, the text counts.
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        text += &before.replace('[', "");
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    text += rest;
    let rest = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    rest.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let page = read(
            "a [b `c](d)`](e.md#f \"g\") ![h](i(j).svg) `[k](l)`\n[m]: n.md\n<img src=\"o.svg\">\n```\n[p](q)\n```\n",
        );
        let links: Vec<_> = page.links.iter().map(|(line, target)| (*line, target.as_str())).collect();
        assert_eq!(links, [(1, "e.md#f"), (1, "i(j).svg"), (2, "n.md"), (3, "o.svg")]);
    }

    #[test]
    fn anchors_are_those_of_github() {
        let page = read("# A `b` (c): d/e\n## A_b\n## A_b\n### [MPI I/O](x.md)\n<a id=\"z\"></a>\n```\n# no\n```\n");
        assert_eq!(
            page.anchors.iter().map(String::as_str).collect::<Vec<_>>(),
            ["a-b-c-de", "a_b", "a_b-1", "mpi-io", "z"]
        );
    }

    #[test]
    fn code_is_found_with_its_line() {
        let page = read("see `x y`\n```\na \\\n  b\nc\n```\n```rust\nd\n```\n");
        let code: Vec<_> = page.code.iter().map(|code| (code.line, code.text.as_str(), code.is_inline)).collect();
        assert_eq!(code, [(1, "x y", true), (3, "a b", false), (5, "c", false)]);
    }
}
