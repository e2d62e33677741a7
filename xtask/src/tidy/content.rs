//! The contents that a source file may not have.

use super::functions;
use super::text::{Language, blank};

/// Lines above which a file is to be split, and beyond which nothing helps.
const FILE_LINES_SPLIT: usize = 600;
const FILE_LINES_MAX: usize = 1000;
const FUNCTION_LINES_MAX: usize = 70;

/// Files above [`FILE_LINES_SPLIT`] that are better whole.
const WHOLE_FILES: &[&str] = &[];

/// Rust files that may contain `unsafe`.
const UNSAFE_FILES: &[&str] = &[
    // Notifications of opens, and their descriptors.
    "cli/src/guard/fanotify.rs",
    // What is done before Rust's runtime begins.
    "cli/src/process/inherited.rs",
    // Memory whose protection is changed, to measure the cost.
    "cli/src/io/measure.rs",
    // `unshare` is unsafe for the sake of one flag, which is not used.
    "cli/src/namespace/make.rs",
    // rustix has no call that changes descriptors without an owner here, and none that forks.
    "cli/src/process/mod.rs",
    "cli/src/shim.rs",
    "cli/src/spawn/library.rs",
    "cli/src/spawn/on_behalf.rs",
    "cluster/src/wires/tap.rs",
    "daemon/src/process.rs",
    // rustix has no call for memory policies.
    "daemon/src/replicas/policy.rs",
    "fuse/src/device.rs",
    "fuse/src/ioctl.rs",
    "fuzz/targets/carrier.rs",
    "fuzz/targets/mpiio_message.rs",
    "fuzz/targets/mpiio_text.rs",
    "fuzz/targets/shim_ldcache.rs",
    "fuzz/targets/shim_table.rs",
    "fuzz/targets/spawn_request.rs",
    // rustix has no call that sets the identity of one thread.
    "mount/src/caller.rs",
    // rustix has no call for locks of a part of a file that belong to its description.
    "mount/src/source_file/locks/operations.rs",
    // rustix has no call for these socket options.
    "overlay/src/rails/socket.rs",
    "overlay/src/unsent.rs",
    "store/src/mirror/lease.rs",
    "store/src/table/mapping.rs",
    // A process that a test starts enters a node's mounts before it becomes the daemon.
    "tests/src/harness/nodes/daemon.rs",
    // rustix has neither ptrace nor seccomp, and no call that forks.
    "tracer/src/affinity.rs",
    "tracer/src/filter.rs",
    "tracer/src/memory.rs",
    "tracer/src/privileges.rs",
    "tracer/src/processes.rs",
    "tracer/src/request.rs",
    "tracer/src/signals.rs",
    "tracer/src/start.rs",
];

/// Markers of work left undone, spelt so that this file does not contain them.
const UNDONE: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
/// Code that is left over from debugging, or a placeholder for code to come.
const LEFTOVER: &[&str] = &["dbg!(", "todo!(", "unimplemented!(", "#[ignore"];
/// Crates whose code runs inside other programs' output: they log, they never print.
const SILENT: &[&str] = &[
    "abi/src/",
    "proto/src/",
    "topology/src/",
    "closure/src/",
    "launch/src/",
    "figures/src/",
    "store/src/",
    "reader/src/",
    "overlay/src/",
    "mount/src/",
    "daemon/src/",
    "supervisor/src/",
];

/// Complaints about the file `path` with this text.
pub fn check(path: &str, source: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in source.lines().enumerate() {
        for word in UNDONE.iter().filter(|word| has_word(line, word)) {
            complaints.push(format!("{path}:{}: `{word}`: do it, or open an issue", number + 1));
        }
    }
    if let Some(language) = Language::of(path) {
        lengths(path, source, language, &mut complaints);
        match language {
            Language::Rust => rust(path, &blank(source, language), &mut complaints),
            Language::C => c(path, &blank(source, language), &mut complaints),
        }
    }
    complaints
}

fn lengths(path: &str, source: &str, language: Language, complaints: &mut Vec<String>) {
    let lines = source.lines().count();
    if lines > FILE_LINES_MAX || (lines > FILE_LINES_SPLIT && !WHOLE_FILES.contains(&path)) {
        complaints.push(format!("{path}: {lines} lines: split it (at most {FILE_LINES_SPLIT})"));
    }
    for function in functions::find(source, language).iter().filter(|f| f.lines() > FUNCTION_LINES_MAX) {
        let (name, lines, first) = (&function.name, function.lines(), function.first);
        complaints.push(format!("{path}:{first}: `{name}` has {lines} lines (at most {FUNCTION_LINES_MAX})"));
    }
}

fn rust(path: &str, code: &str, complaints: &mut Vec<String>) {
    let silent = SILENT.iter().any(|prefix| path.starts_with(prefix));
    let tests_at = code.find("#[cfg(test)]").unwrap_or(code.len());
    let mut at = 0;
    for (number, line) in code.split_inclusive('\n').enumerate() {
        let mut complain = |what: &str| complaints.push(format!("{path}:{}: {what}", number + 1));
        for leftover in LEFTOVER.iter().filter(|l| line.contains(**l)) {
            complain(&format!("`{leftover}`: leftover"));
        }
        let prints = ["print!(", "println!(", "eprint!(", "eprintln!("].iter().any(|p| line.contains(p));
        if silent && prints && at < tests_at {
            complain("a library prints nothing: return it, or log it");
        }
        if has_word(line, "unsafe") && !UNSAFE_FILES.contains(&path) {
            complain("`unsafe` outside of the files that may contain it (xtask/src/tidy/content.rs)");
        }
        at += line.len();
    }
}

fn c(path: &str, code: &str, complaints: &mut Vec<String>) {
    if path.ends_with(".h") {
        let mut lines = code.lines().map(str::trim).filter(|line| !line.is_empty());
        let guard = lines.next().and_then(|line| line.strip_prefix("#ifndef ")).map(str::trim);
        let defined = lines.next().and_then(|line| line.strip_prefix("#define ")).map(str::trim);
        if guard.is_none() || guard != defined {
            complaints.push(format!("{path}: a header begins with an include guard"));
        }
    }
    for (number, line) in code.lines().enumerate() {
        let prints = ["printf(", "puts("].iter().any(|call| has_call(line, call));
        let is_library = path.starts_with("shim/") || path.starts_with("mpiio/");
        if prints && is_library && !path.contains("/tests/") {
            complaints.push(format!("{path}:{}: a library prints nothing", number + 1));
        }
    }
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].ends_with(is_word) && !line[at + word.len()..].starts_with(is_word)
    })
}

fn has_call(line: &str, call: &str) -> bool {
    line.match_indices(call).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect(path: &str, source: &str, part: Option<&str>) {
        let complaints = check(path, source);
        match part {
            None => assert!(complaints.is_empty(), "{source}: {complaints:?}"),
            Some(part) => {
                assert!(complaints.len() == 1 && complaints[0].contains(part), "{source}: {complaints:?}");
            }
        }
    }

    #[test]
    fn leftovers() {
        expect("cli/src/a.rs", "fn f() {\n    dbg!(1);\n}\n", Some("cli/src/a.rs:2: `dbg!(`"));
        expect("cli/src/a.rs", "// about \"dbg!(\" only\n", None);
        expect("cli/src/a.rs", &format!("// {}: later\n", UNDONE[0]), Some(":1:"));
        expect("docs/a.md", &format!("{} later\n", UNDONE[1]), Some("docs/a.md:1"));
        expect("tests/a.rs", "#[ignore]\nfn f() {}\n", Some("leftover"));
        expect("tests/a.rs", "mkdtemp(\"aXXXXXX\");\n", None);
    }

    #[test]
    fn printing() {
        expect("daemon/src/a.rs", "fn f() { println!(); }\n", Some("prints nothing"));
        expect("daemon/src/a.rs", "#[cfg(test)]\nmod tests { fn f() { println!(); } }\n", None);
        expect("cli/src/a.rs", "fn f() { println!(); }\n", None);
        expect("shim/audit/a.c", "void f(void) { printf(\"\"); }\n", Some("prints nothing"));
        expect("shim/audit/a.c", "void f(void) { hwa_snprintf(\"\"); }\n", None);
        expect("shim/audit/tests/a.c", "void f(void) { printf(\"\"); }\n", None);
    }

    #[test]
    fn unsafe_code() {
        expect("proto/src/a.rs", "fn f() { unsafe { g() } }\n", Some("`unsafe`"));
        expect("proto/src/a.rs", "#![forbid(unsafe_code)]\n// unsafe\n", None);
    }

    #[test]
    fn headers() {
        expect("abi/include/a.h", "/* A. */\n#ifndef A_H\n#define A_H\n#endif\n", None);
        expect("abi/include/a.h", "int x;\n", Some("include guard"));
    }

    #[test]
    fn lengths() {
        let body = "    f();\n".repeat(FUNCTION_LINES_MAX - 2);
        expect("cli/src/a.rs", &format!("fn g() {{\n{body}}}\n"), None);
        expect("cli/src/a.rs", &format!("fn g() {{\n{body}\n}}\n"), Some("`g` has 71 lines"));
        expect("cli/src/a.rs", &"// x\n".repeat(FILE_LINES_SPLIT + 1), Some("601 lines"));
    }
}
