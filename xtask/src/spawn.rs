//! The spawning libraries: how they are compiled, and the manual pages of their calls, which the header's comments are.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::shell::Shell;
use crate::{cc, files, side_by_side};

/// The directory of all of it.
pub const SOURCES: &str = "spawn";
/// Its tests.
pub const TESTS: &str = "spawn/tests";
/// The header of callers.
const HEADER: &str = "spawn/include/pspawn.h";
const FLAGS: &[&str] = &[
    "-O2",
    "-g1",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wl,-z,relro",
    "-Wl,-z,now",
    "-Wl,--build-id",
    "-Wl,--no-undefined",
];

/// A library: its name, the folder of its sources, folders that it shares with others, and more flags.
struct Library {
    name: &'static str,
    folder: &'static str,
    shared: &'static [&'static str],
    flags: &'static [&'static str],
}

const LIBRARIES: [Library; 3] = [
    Library { name: "libheadwater-spawn.so", folder: "src", shared: &["core"], flags: &[] },
    // Its constructor precedes all others, and binds calls anew.
    Library {
        name: "libheadwater-zygote.so",
        folder: "zygote",
        shared: &["core"],
        flags: &["-Wl,-z,initfirst", "-Wl,-z,norelro"],
    },
    Library { name: "libheadwater-relay.so", folder: "relay", shared: &["core", "src"], flags: &[] },
];

/// Compiles the libraries into `target/spawn`, unless nothing has changed, and returns their paths.
pub fn build(shell: &Shell) -> Result<Vec<PathBuf>> {
    let directory = shell.built("spawn");
    side_by_side::map(&LIBRARIES, |library| library.build(shell, &directory)).into_iter().collect()
}

impl Library {
    fn build(&self, shell: &Shell, directory: &Path) -> Result<PathBuf> {
        let folder = Path::new(SOURCES).join(self.folder);
        let mut sources = files::with_extensions(&shell.path(&folder), &["c"])?;
        ensure!(!sources.is_empty(), "{} contains no C files", folder.display());
        for shared in self.shared {
            sources.extend(files::with_extensions(&shell.path(SOURCES).join(shared), &["c"])?);
        }
        let mut command = cc::compiler(shell);
        command.args(FLAGS).args(self.flags);
        command.arg(format!("-Wl,--version-script={}/export.map", folder.display()));
        command.arg(format!("-Wl,-soname,{}", self.name));
        command.args(sources.iter().map(|source| source.strip_prefix(&shell.root).unwrap_or(source)));
        // Before glibc 2.34 these are libraries of their own.
        command.args(["-ldl", "-lpthread"]);
        cc::compile(shell, command, &directory.join(self.name), &[shell.path(SOURCES), shell.path("abi/include")])
    }
}

/// Copies the libraries, the header and the manual pages to where they are installed.
pub fn dist(shell: &Shell, dist: &Path) -> Result<()> {
    for library in build(shell)? {
        files::copy_if_changed(&library, &dist.join("lib").join(library.file_name().context("a library has a name")?))?;
    }
    files::copy_if_changed(&shell.path(HEADER), &dist.join("include/pspawn.h"))?;
    let manual = dist.join("share/man/man3");
    std::fs::create_dir_all(&manual)?;
    for page in pages(&std::fs::read_to_string(shell.path(HEADER))?)? {
        std::fs::write(manual.join(format!("{}.3", page.name)), page.text)?;
    }
    Ok(())
}

/// A manual page in section 3.
struct Page {
    name: String,
    text: String,
}

/// A page for each function that the header declares, from its comment or that of the declaration before it.
fn pages(header: &str) -> Result<Vec<Page>> {
    let introduction = comment(header).context("the header begins with a comment")?;
    let mut pages = Vec::new();
    let mut text_of = String::new();
    for block in header.split("\n\n").skip(1) {
        if let Some(text) = comment(block) {
            text_of = text;
        }
        let code = block.rsplit_once("*/").map_or(block, |(_, code)| code).trim();
        let Some(function) = code.rsplit_once(';').and_then(|(rest, _)| declared(rest)) else { continue };
        let text = page(&function, code, &text_of, &introduction);
        pages.push(Page { name: function, text });
    }
    ensure!(!pages.is_empty(), "{HEADER} declares no function");
    Ok(pages)
}

/// The function that a declaration, without its semicolon, names.
fn declared(code: &str) -> Option<String> {
    let last = code.rsplit([';', '}']).next()?;
    let name = last.split_once('(')?.0.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (name.starts_with("pspawn") || name.starts_with("ipspawn")).then(|| name.to_owned())
}

/// The text of a block's first comment, as paragraphs.
fn comment(block: &str) -> Option<String> {
    let (_, rest) = block.split_once("/*")?;
    let (text, _) = rest.split_once("*/")?;
    let lines = text.lines().map(|line| line.trim().trim_start_matches('*').trim());
    Some(lines.collect::<Vec<_>>().join("\n").trim().to_owned())
}

fn page(name: &str, code: &str, text_of: &str, introduction: &str) -> String {
    let roff = |text: &str| text.replace('\\', "\\e").replace("\n\n", "\n.PP\n").replace("\n.'", "\n\\&.'");
    let summary = text_of.split_once(". ").map_or(text_of, |(first, _)| first).replace('\n', " ");
    format!(
        ".TH {} 3 \"\" Headwater\n.SH NAME\n{name} \\- {}\n.SH SYNOPSIS\n.nf\n#include <pspawn.h>\n\n{}\n.fi\n\
         Link with \\fI-lheadwater-spawn\\fP.\n.SH DESCRIPTION\n{}\n.SH NOTES\n{}\n.SH SEE ALSO\nposix_spawn(3), execve(2), \
         waitpid(2)\n",
        name.to_uppercase(),
        roff(summary.trim_end_matches('.')),
        roff(code),
        roff(text_of),
        roff(introduction)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_pages() {
        let header = "/* All of it. */\n#ifndef X\n\n/* Makes one. And more. */\nstruct a {\n\tint b;\n};\n\
                      int pspawn_make(struct a *a,\n                int b);\n\nenum c { D };\n\n/* Ends\n * it. */\n\
                      void pspawn_end(void);\n";
        let pages = pages(header).unwrap();
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        assert_eq!(names, ["pspawn_make", "pspawn_end"]);
        assert!(pages[0].text.contains("pspawn_make \\- Makes one\n"), "{}", pages[0].text);
        assert!(pages[1].text.contains("Ends\nit."), "{}", pages[1].text);
    }

    #[test]
    fn the_header_is_a_manual() {
        let header = include_str!("../../spawn/include/pspawn.h");
        let names: Vec<String> = pages(header).unwrap().into_iter().map(|page| page.name).collect();
        for call in ["pspawn", "pspawn_n", "pspawn_context_create", "pspawn_vector", "ipspawn_vector", "pspawn_many"] {
            assert!(names.iter().any(|name| name == call), "{call} of {names:?}");
        }
    }
}
