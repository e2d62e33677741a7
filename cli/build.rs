//! Compiles the C that `headwater exec` shares with the audit library, for a program with a C library.

fn main() {
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
