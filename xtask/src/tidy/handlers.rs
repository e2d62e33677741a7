//! What the I/O library's signal handlers may do: system calls and work in memory of their own. The program may be
//! within malloc or MPI when one runs, so none allocates, and none calls MPI.
//!
//! The check follows calls by their names, from each function that is installed as a handler, and from the thread that
//! gives up leases. A call through a field leads to all functions that initialise a field of this name.

use std::collections::{BTreeMap, BTreeSet};

use super::functions;
use super::text::{Language, blank};
use crate::mpiio::FLOORS;

/// A function that isn't installed as a handler, but does only what one may.
const OTHER_ROOTS: &[&str] = &["release_broken"];
/// Functions that a handler calls only where its thread can't do the work after it: on processors other than x86-64, and
/// with a shadow stack. Each with its caller.
const WITHOUT_ASIDE: &[(&str, &str)] =
    &[("on_fault", "fill_page"), ("on_call", "settle_call"), ("on_call", "execute_call")];
/// Fields by which the program's own handler is called.
const OF_PROGRAM: &[&str] = &["sa_sigaction", "sa_handler"];
/// Pointers to functions that are no fields, with all functions to which they may point.
const POINTERS: &[(&str, &[&str])] = &[
    ("watch_busy", &["watch"]),
    ("preserve_requested", &["preserve"]),
    ("protect_again", &["protect_admitted"]),
    ("is_any", &["has_records", "hwio_incoming_any", "hwio_incoming_is_writing", "hwio_outstanding_any"]),
    // The flag that builds with checks of allocation set.
    ("allocation_checks", &[]),
];
/// Functions of the C library that make one system call, or none and no allocation. Of `printf`'s family: those that
/// write into memory, by conversions that allocate nothing.
const HARMLESS: &[&str] = &[
    "__atomic_fetch_add",
    "__builtin_expect",
    "__get_cpuid",
    "__get_cpuid_count",
    "abort",
    "assert",
    "atomic_compare_exchange_strong",
    "atomic_exchange",
    "clock_gettime",
    "fcntl",
    "fstat",
    "getpid",
    "memcpy",
    "memmove",
    "memset",
    "nanosleep",
    "posix_fadvise",
    "prctl",
    "pthread_setcancelstate",
    "raise",
    "sigdelset",
    "sigfillset",
    "sigismember",
    "sigorset",
    "strerror",
    "strlen",
    "va_end",
    "va_start",
    "vsnprintf",
];
/// Originals of the C library that are as harmless.
const HARMLESS_ORIGINALS: &[&str] = &[
    "close",
    "mmap",
    "mprotect",
    "open",
    "pread",
    "process_vm_readv",
    "pthread_sigmask",
    "pwrite",
    "sigaction",
    "syscall",
    "write",
];
const KEYWORDS: &[&str] =
    &["if", "while", "for", "switch", "return", "sizeof", "volatile", "__attribute__", "tls_model"];

/// A function's file, and its code without comments and literals.
struct Body<'a> {
    path: &'a str,
    code: String,
}

/// The functions of the core, by their names, and those that initialise a field, by the field's name.
struct Core<'a> {
    functions: BTreeMap<String, Vec<Body<'a>>>,
    fields: BTreeMap<String, BTreeSet<String>>,
}

/// Complaints about these files (paths from the root, with their text).
pub fn check(files: &[(&str, String)]) -> Vec<String> {
    let core = Core::read(files);
    let installed = core.fields.get("sa_sigaction").into_iter().flatten().map(String::as_str);
    let mut pending: Vec<(String, &str, String)> = Vec::new();
    for root in installed.chain(OTHER_ROOTS.iter().copied()) {
        for body in core.functions.get(root).into_iter().flatten() {
            pending.push((root.to_owned(), body.path, root.to_owned()));
        }
    }
    let (mut complaints, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some((name, path, way)) = pending.pop() {
        if !seen.insert((name.clone(), path)) {
            continue;
        }
        let Some(body) = core.functions[&name].iter().find(|body| body.path == path) else { continue };
        if words(&body.code).any(|(_, word)| word == "hwio_real") {
            complaints.push(format!("{path}: `{name}` uses MPI, and a signal's handler calls it: {way}"));
        }
        for call in calls(&body.code) {
            match core.targets(&name, path, &call) {
                Ok(targets) => {
                    pending.extend(targets.into_iter().map(|(to, path)| (to.clone(), path, format!("{way} > {to}"))));
                }
                Err(what) => {
                    complaints.push(format!("{path}: `{name}` calls {what}, in a signal's handler: {way}"));
                }
            }
        }
    }
    complaints.sort();
    complaints
}

/// A call in a function's code.
#[derive(Debug, PartialEq, Eq)]
enum Call<'a> {
    Named(&'a str),
    /// Through a field of an object.
    Field(&'a str, &'a str),
}

impl<'a> Core<'a> {
    fn read(files: &'a [(&'a str, String)]) -> Core<'a> {
        let mut core = Core { functions: BTreeMap::new(), fields: BTreeMap::new() };
        let is_of_core = |path: &str| FLOORS.iter().any(|floor| path.starts_with(floor));
        for (path, source) in files.iter().filter(|(path, _)| is_of_core(path)) {
            let code = blank(source, Language::C);
            let lines: Vec<&str> = code.lines().collect();
            for function in functions::find(source, Language::C) {
                let text = lines[function.first - 1..function.last].join("\n");
                let code = text.split_once('{').map_or(String::new(), |(_, body)| body.to_owned());
                core.functions.entry(function.name).or_default().push(Body { path, code });
            }
            for (field, function) in assignments(&code) {
                core.fields.entry(field.to_owned()).or_default().insert(function.to_owned());
            }
        }
        let functions = &core.functions;
        core.fields.values_mut().for_each(|of| of.retain(|name| functions.contains_key(name)));
        core
    }

    /// The functions to which a call in the function `by` of `path` leads. `Err`: one that a handler may not call.
    fn targets(&self, by: &str, path: &str, call: &Call<'_>) -> Result<Vec<(String, &'a str)>, String> {
        let named = |name: &str| -> Vec<(String, &'a str)> {
            let all = self.functions.get(name).map_or(&[][..], Vec::as_slice);
            let own = all.iter().filter(|body| body.path == path);
            let found: Vec<&Body> = if own.clone().next().is_some() { own.collect() } else { all.iter().collect() };
            found.into_iter().map(|body| (name.to_owned(), body.path)).collect()
        };
        match *call {
            Call::Named(name) if WITHOUT_ASIDE.contains(&(by, name)) => Ok(Vec::new()),
            Call::Named(name) => {
                let found = named(name);
                let pointed = POINTERS.iter().find(|(pointer, _)| *pointer == name);
                match pointed {
                    _ if !found.is_empty() => Ok(found),
                    Some((_, functions)) => Ok(functions.iter().flat_map(|function| named(function)).collect()),
                    None if HARMLESS.contains(&name) => Ok(found),
                    None => Err(format!("`{name}`")),
                }
            }
            Call::Field("hwio_libc", name) if HARMLESS_ORIGINALS.contains(&name) => Ok(Vec::new()),
            Call::Field(_, name) if OF_PROGRAM.contains(&name) => Ok(Vec::new()),
            Call::Field(object, name) => match self.fields.get(name) {
                Some(functions) if object != "hwio_libc" => {
                    Ok(functions.iter().flat_map(|function| named(function)).collect())
                }
                _ => Err(format!("`{object}`'s `{name}`")),
            },
        }
    }
}

/// Each word with the position behind it.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    code.split(move |c| !is_word(c)).filter(|word| !word.is_empty()).map(|word| {
        let end = word.as_ptr() as usize - code.as_ptr() as usize + word.len();
        (end, word)
    })
}

/// The calls in a function's code. Macros, in capitals, are no calls; what their arguments call is.
fn calls(code: &str) -> Vec<Call<'_>> {
    let mut calls = Vec::new();
    let mut before = ("", 0);
    for (end, word) in words(code) {
        let start = end - word.len();
        let joined = code[before.1..start].trim();
        let is_call = code[end..].trim_start().starts_with('(');
        let is_macro = word.chars().all(|c| !c.is_ascii_lowercase());
        if is_call && !KEYWORDS.contains(&word) && !is_macro {
            calls.push(match joined {
                "." | "->" => Call::Field(before.0, word),
                "]." | "]->" => Call::Field("", word),
                _ => Call::Named(word),
            });
        }
        before = (word, end);
    }
    calls
}

/// Each `.field = name` of an initialiser.
fn assignments(code: &str) -> Vec<(&str, &str)> {
    let all: Vec<(usize, &str)> = words(code).collect();
    let mut found = Vec::new();
    for pair in all.windows(2) {
        let [(field_end, field), (name_end, name)] = [pair[0], pair[1]];
        let is_field = code[..field_end - field.len()].ends_with('.');
        if is_field && code[field_end..name_end - name.len()].trim() == "=" {
            found.push((field, name));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(handler: &str, others: &str) -> Vec<String> {
        let text = format!(
            "static void on_fault(int signal)\n{{\n{handler}\n}}\n{others}\n\
             static struct sigaction action = {{.sa_sigaction = on_fault}};\n"
        );
        check(&[("mpiio/memory/fault.c", text)])
    }

    #[test]
    fn handlers_make_system_calls() {
        assert_eq!(complaints("hwio_libc.pread(1, memory, 2, 3); memcpy(a, b, 1);", ""), [""; 0]);
        assert!(complaints("void *m = malloc(1);", "")[0].contains("calls `malloc`"));
        assert!(complaints("hwio_libc.fork();", "")[0].contains("`hwio_libc`'s `fork`"));
        assert!(complaints("/* malloc(1) */ if (a) raise(signal);", "").is_empty());
    }

    #[test]
    fn calls_are_followed() {
        let fill = "static void fill(void)\n{\n\thwio_real.MPI_Send(0);\n}";
        let found = complaints("fill();", fill);
        assert!(found.iter().any(|one| one.ends_with("on_fault > fill")), "{found:?}");
        assert_eq!(complaints("raise(1);", fill), [""; 0]);
        let source = "static const struct source one = {.find = fill};";
        assert!(!complaints("sources[i]->find(1);", &format!("{fill}\n{source}")).is_empty());
        assert!(!complaints("sources[i]->other(1);", "").is_empty());
        // The thread does this after the handler.
        assert_eq!(complaints("struct aside one = {.work = fill};", fill), [""; 0]);
    }

    #[test]
    fn calls_of_a_function() {
        let expected = [Call::Named("f"), Call::Field("a", "g"), Call::Field("", "h"), Call::Named("i")];
        assert_eq!(calls("f(1); a->g(x); b[i].h(); MACRO(i (2)); if (y) return (z);"), expected);
    }
}
