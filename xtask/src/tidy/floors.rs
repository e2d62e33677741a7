//! The floors of the I/O library's core: a file includes headers of its own floor and of those below, and names nothing
//! that a floor above defines.

use std::collections::BTreeMap;

use super::functions;
use super::text::{Language, blank};
use crate::mpiio::{CALLS, FLOORS, SOURCES};

/// Headers without a floor: the originals, which are generated for each MPI.
const BELOW_ALL: &[&str] = &["real.h"];

/// Complaints about these files (paths from the root, with their text).
pub fn check(files: &[(&str, String)]) -> Vec<String> {
    let core: Vec<(usize, &str, &str)> =
        files.iter().filter_map(|(path, source)| Some((floor_of(path)?, *path, source.as_str()))).collect();
    let mut defined = BTreeMap::new();
    for (floor, path, source) in core.iter().filter(|(_, path, _)| path.ends_with(".c")) {
        defined.extend(definitions(source).into_iter().map(|name| (name, (*floor, *path))));
    }
    let mut complaints = Vec::new();
    for &(floor, path, source) in &core {
        complaints.extend(includes(floor, path, source));
        complaints.extend(uses(floor, path, source, &defined));
    }
    complaints
}

/// The floor of a file, from the lowest one; the tables' headers belong to the highest.
fn floor_of(path: &str) -> Option<usize> {
    let is_in = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    if is_in(CALLS) {
        return Some(FLOORS.len() - 1);
    }
    FLOORS.iter().position(|floor| is_in(floor))
}

fn includes(floor: usize, path: &str, source: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in source.lines().enumerate() {
        let Some(name) = line.strip_prefix("#include \"").and_then(|rest| rest.split('"').next()) else { continue };
        if BELOW_ALL.contains(&name) {
            continue;
        }
        let named = format!("{SOURCES}/{name}");
        // The tables' headers are found by their names alone.
        let of = if name.contains('/') { floor_of(&named) } else { Some(FLOORS.len() - 1) };
        let number = number + 1;
        match of {
            None => complaints.push(format!("{path}:{number}: \"{name}\" is on no floor of {SOURCES}/")),
            Some(other) if other > floor => complaints.push(format!(
                "{path}:{number}: includes \"{name}\" of a floor above: move code, or register a function there"
            )),
            Some(_) => {}
        }
    }
    complaints
}

/// The names of functions and variables that a C file defines for others.
fn definitions(source: &str) -> Vec<String> {
    let code = blank(source, Language::C);
    let lines: Vec<&str> = code.lines().collect();
    let is_static = |first: usize| lines[..first].iter().rev().take(2).any(|line| line.starts_with("static "));
    let mut names: Vec<String> = functions::find(source, Language::C)
        .into_iter()
        .filter(|function| function.name.starts_with("hwio_") && !is_static(function.first))
        .map(|function| function.name)
        .collect();
    for line in lines.iter().filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')) {
        let is_variable = !["static ", "extern ", "typedef "].iter().any(|start| line.starts_with(start))
            && !line.contains('(')
            && line.contains([';', '=']);
        let is_made = line.starts_with(|c: char| c.is_ascii_uppercase()) && line.contains("(hwio_");
        if !is_variable && !is_made {
            continue;
        }
        let mut before = "";
        for word in words(line) {
            if word.starts_with("hwio_") && !["struct", "enum", "union"].contains(&before) {
                names.push(word.to_owned());
            }
            before = word;
        }
    }
    names
}

fn uses(floor: usize, path: &str, source: &str, defined: &BTreeMap<String, (usize, &str)>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in blank(source, Language::C).lines().enumerate() {
        for word in words(line) {
            if let Some((_, by)) = defined.get(word).filter(|(other, _)| *other > floor) {
                complaints.push(format!("{path}:{}: `{word}` is defined on a floor above, in {by}", number + 1));
            }
        }
    }
    complaints
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        check(&files.iter().map(|&(path, source)| (path, source.to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn headers_of_floors_above() {
        let below = "#include <mpi.h>\n#include \"real.h\"\n#include \"base/engine.h\"\n#include \"memory/pages.h\"\n";
        assert_eq!(complaints(&[("mpiio/memory/pages.c", below)]), [""; 0]);
        let above = complaints(&[("mpiio/memory/pages.h", "#include \"transfer/offer.h\"\n")]);
        assert!(above.len() == 1 && above[0].starts_with("mpiio/memory/pages.h:1: includes"), "{above:?}");
        assert_eq!(complaints(&[("mpiio/mpi/comm.c", "#include \"buffer_effects.h\"\n")]).len(), 1);
        assert_eq!(complaints(&[("mpiio/intercept/a.c", "#include \"buffer_effects.h\"\n")]), [""; 0]);
        assert_eq!(complaints(&[("mpiio/mpi/comm.c", "#include \"../memory/pages.h\"\n")]).len(), 1);
        assert_eq!(complaints(&[("mpiio/front/pick.c", "#include \"front.h\"\n")]), [""; 0]);
    }

    #[test]
    fn names_of_floors_above() {
        let offer = ("mpiio/transfer/offer.c", "bool hwio_offer_any(void)\n{\n}\nint hwio_a, *hwio_b = 0;\n");
        let uses = |text| complaints(&[offer, ("mpiio/memory/pages.c", text)]).len();
        assert_eq!(uses("void f(void)\n{\n\thwio_offer_any();\n}\n"), 1);
        assert_eq!(uses("extern int hwio_a;\nint g(void)\n{\n\treturn *hwio_b;\n}\n"), 2);
        assert_eq!(uses("/* hwio_offer_any */\nconst char *f = \"hwio_a\";\n"), 0);
        let down = ("mpiio/intercept/send.c", "void f(void)\n{\n\thwio_offer_any();\n}\n");
        assert_eq!(complaints(&[offer, down]), [""; 0]);
    }

    #[test]
    fn what_a_file_defines_for_others() {
        let source = "struct hwio_declared;\nstruct hwio_one hwio_one = {0};\nstatic int hwio_own;\nextern int hwio_other;\n\
            static bool\nhwio_static(void)\n{\n}\nSUM(hwio_made, int)\nint hwio_last(struct hwio_argument *of)\n{\n}\n";
        assert_eq!(definitions(source), ["hwio_last", "hwio_one", "hwio_made"]);
    }
}
