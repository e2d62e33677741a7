//! Compiles the C that `headwater exec` shares with the audit library, for a program with a C library; and the spawning
//! library, but for the functions that stand before the C library's own: this program waits for no child that it does
//! not know.

fn main() {
    exec();
    spawn();
}

fn exec() {
    let shim = "../shim/audit";
    let sources = ["exec", "path", "request", "resolve", "sys", "table"];
    cc::Build::new()
        .files(sources.map(|name| format!("{shim}/{name}.c")))
        .include(shim)
        .include("../abi/include")
        .define("HW_HOSTED", None)
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .compile("headwater-exec");
    println!("cargo::rerun-if-changed={shim}");
    println!("cargo::rerun-if-changed=../abi/include");
}

fn spawn() {
    let entries = ["../spawn/src", "../spawn/core"].into_iter().flat_map(|folder| {
        std::fs::read_dir(folder).expect("the sources are there").map(|entry| entry.expect("a name").path())
    });
    // Waiting for any child is the C library's here.
    let is_source = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "c") && !path.ends_with("wait.c");
    let mut sources: Vec<_> = entries.filter(is_source).collect();
    sources.sort();
    cc::Build::new()
        .files(sources)
        .file("src/spawn/layout.c")
        .include("../spawn/include")
        .define("HW_WITHOUT_WAIT", None)
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .compile("headwater-spawn");
    println!("cargo::rerun-if-changed=../spawn");
    println!("cargo::rerun-if-changed=src/spawn/layout.c");
}
