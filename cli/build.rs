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
    let library = "../spawn/src";
    let sources =
        ["apply", "asking", "calls", "context", "direct", "inherit", "message", "place", "program", "watch", "wire"];
    cc::Build::new()
        .files(sources.map(|name| format!("{library}/{name}.c")))
        .file("src/spawn/layout.c")
        .include(library)
        .include("../spawn/include")
        .define("HW_WITHOUT_WAIT", None)
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .compile("headwater-spawn");
    println!("cargo::rerun-if-changed=../spawn");
    println!("cargo::rerun-if-changed=src/spawn/layout.c");
}
