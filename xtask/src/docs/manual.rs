//! Manual pages of the interfaces in C: one for each function that a header declares. The header's comments are the text.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::shell::Shell;

/// A header that programs include.
struct Header {
    path: &'static str,
    /// The name by which programs include it.
    name: &'static str,
    /// What the names of its functions begin with.
    prefixes: &'static [&'static str],
    /// How programs are linked.
    link: &'static str,
    related: &'static str,
}

const HEADERS: [Header; 3] = [
    Header {
        path: "spawn/include/pspawn.h",
        name: "pspawn.h",
        prefixes: &["pspawn", "ipspawn"],
        link: "Link with \\fI-lheadwater-spawn\\fP.",
        related: "posix_spawn(3), execve(2), waitpid(2)",
    },
    Header {
        path: "abi/include/headwater.h",
        name: "headwater.h",
        prefixes: &["headwater_"],
        link: "There is no library to link.",
        related: "headwater-run(1), open(2), stat(2), readlink(2), fopen(3)",
    },
    Header {
        path: "abi/include/headwater-launch.h",
        name: "headwater-launch.h",
        prefixes: &["headwater_"],
        link: "There is no library to link.",
        related: "headwater-start(1), headwater-run(1)",
    },
];

/// A manual page in section 3.
struct Page {
    name: String,
    text: String,
}

/// A part of a header between empty lines, without the inside of functions.
struct Block<'a> {
    comment: Option<String>,
    code: &'a str,
}

/// Writes the pages of all headers into this directory.
pub fn install(shell: &Shell, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    for header in &HEADERS {
        let text = fs::read_to_string(shell.path(header.path))?;
        for page in header.pages(&text).with_context(|| header.path)? {
            fs::write(directory.join(format!("{}.3", page.name)), page.text)?;
        }
    }
    Ok(())
}

impl Header {
    /// A page for each function, from the comment before it.
    fn pages(&self, text: &str) -> Result<Vec<Page>> {
        let introduction = comment(text).context("the header begins with a comment")?;
        let blocks: Vec<Block<'_>> = text.split("\n\n").skip(1).filter_map(block).collect();
        let structures: BTreeMap<&str, &str> = blocks.iter().filter_map(|block| structure(block.code)).collect();
        let mut pages = Vec::new();
        for block in &blocks {
            let Some((name, declaration)) = self.function(block.code) else { continue };
            let about = block.comment.as_ref().with_context(|| format!("{name} has no comment"))?;
            let used = structures.iter().filter(|(name, _)| declaration.contains(&format!("struct {name} ")));
            let code: Vec<&str> = [declaration.as_str()].into_iter().chain(used.map(|(_, code)| *code)).collect();
            let text = self.page(&name, &code.join("\n\n"), about, &introduction);
            pages.push(Page { name, text });
        }
        ensure!(!pages.is_empty(), "it declares no function");
        Ok(pages)
    }

    /// The name and the declaration of the function that a block has, if programs may call it.
    fn function(&self, code: &str) -> Option<(String, String)> {
        let declaration = match code.split_once("\n{") {
            Some((declaration, _)) => declaration,
            None => code.rsplit_once(';')?.0,
        };
        let last = declaration.rsplit([';', '}']).next()?;
        let name = last.split_once('(')?.0.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        let is_public = self.prefixes.iter().any(|prefix| name.starts_with(prefix)) && !name.ends_with('_');
        let shown = declaration.trim_start_matches("static inline ");
        is_public.then(|| (name.to_owned(), format!("{shown};")))
    }

    fn page(&self, name: &str, code: &str, about: &str, introduction: &str) -> String {
        let summary = about.split_once(". ").map_or(about, |(first, _)| first).replace('\n', " ");
        format!(
            ".TH {} 3 \"\" Headwater\n.SH NAME\n{name} \\- {}\n.SH SYNOPSIS\n.nf\n#include <{}>\n\n{}\n.fi\n.PP\n{}\n\
             .SH DESCRIPTION\n{}\n.SH NOTES\n{}\n.SH SEE ALSO\n{}\n",
            name.to_uppercase(),
            roff(summary.trim_end_matches('.')),
            self.name,
            code.replace('\\', "\\e"),
            self.link,
            roff(about),
            roff(introduction),
            self.related
        )
    }
}

/// Paragraphs as roff. Indented lines stay lines.
fn roff(text: &str) -> String {
    let paragraph = |text: &str| match text.starts_with(' ') {
        true => format!(".nf\n{text}\n.fi"),
        false => text.to_owned(),
    };
    let text = text.replace('\\', "\\e").replace("\n.", "\n\\&.").replace("\n'", "\n\\&'");
    text.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n.PP\n")
}

fn block(text: &str) -> Option<Block<'_>> {
    let is_inside = text.starts_with(['\t', ' ']);
    let comment = text.starts_with("/*").then(|| comment(text)).flatten();
    let code = if comment.is_some() { text.split_once("*/")?.1 } else { text };
    (!is_inside).then(|| Block { comment, code: code.trim() })
}

/// The name and the text of the structure that a block begins with.
fn structure(code: &str) -> Option<(&str, &str)> {
    let name = code.strip_prefix("struct ")?.split_once(" {")?.0;
    let end = code.find("\n};")? + "\n};".len();
    (!name.ends_with('_')).then(|| (name, &code[..end]))
}

/// The text of a block's first comment, as paragraphs.
fn comment(block: &str) -> Option<String> {
    let (_, rest) = block.split_once("/*")?;
    let (text, _) = rest.split_once("*/")?;
    let line = |line: &str| {
        let line = line.trim_start().trim_start_matches('*').trim_end();
        line.strip_prefix(' ').unwrap_or(line).to_owned()
    };
    Some(text.lines().map(line).collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: Header =
        Header { path: "x.h", name: "x.h", prefixes: &["x_"], link: "Link with x.", related: "exit(3)" };

    #[test]
    fn functions_have_pages() {
        let header = "/* All of it.\n *\n *     x_make ──► x_end */\n#ifndef X\n\n/* One. */\nstruct x_a {\n\tint b;\n};\n\n\
                      /* Makes one. And more. */\nint x_make(struct x_a *a,\n                int b);\n\n\
                      enum c { D };\n\n/* Ends\n * it. */\nstatic inline void x_end(void)\n{\n\tint x;\n\n\tx_make();\n}\n\n\
                      static inline void x_own_(void)\n{\n}\n";
        let pages = TEST.pages(header).unwrap();
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        assert_eq!(names, ["x_make", "x_end"]);
        let make = &pages[0].text;
        assert!(
            make.contains("x_make \\- Makes one\n") && make.contains("\n\nstruct x_a {\n\tint b;\n};\n.fi"),
            "{make}"
        );
        let end = &pages[1].text;
        assert!(end.contains("Ends\nit.") && end.contains("\nvoid x_end(void);\n"), "{end}");
        assert!(end.contains("All of it.\n.PP\n.nf\n    x_make ──► x_end\n.fi"), "{end}");
    }

    #[test]
    fn all_headers_are_manuals() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut names = Vec::new();
        for header in &HEADERS {
            let text = fs::read_to_string(root.join(header.path)).unwrap();
            names.extend(header.pages(&text).unwrap().into_iter().map(|page| page.name));
        }
        for call in ["pspawn", "pspawn_n", "ipspawn_vector", "pspawn_many", "headwater_open", "headwater_is_served"] {
            assert!(names.iter().any(|name| name == call), "{call} of {names:?}");
        }
        assert!(names.iter().any(|name| name == "headwater_session_begin"), "{names:?}");
    }

    #[test]
    fn a_function_without_a_comment_is_an_error() {
        assert!(TEST.pages("/* All of it. */\n\n/* ---- calls ---- */\n\nint x_make(void);\n").is_err());
    }
}
