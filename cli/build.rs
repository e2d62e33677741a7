//! Compiles the C code that `headwater exec` shares with the audit library, and the spawning library. Leaves out the
//! functions that interpose the C library's waiting: this program waits only for children that it knows.

fn main() {
    exec();
    spawn();
    digest();
}

/// Computes a digest of the sources of `cli/src/warm` and its library, which two processes compare: FNV-1a, 64 bits.
fn digest() {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for folder in ["../spawn/include", "../spawn/core", "../spawn/src", "../spawn/zygote", "src/warm"] {
        println!("cargo::rerun-if-changed={folder}");
        let entries = std::fs::read_dir(folder).expect("the sources are there");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("a name").path()).collect();
        files.sort();
        for byte in files.iter().flat_map(|file| std::fs::read(file).expect("a source")) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=WARM_BUILD={digest:016x}");
}

fn exec() {
    let shim = "../shim/audit";
    let sources = ["exec", "path", "program", "request", "resolve", "sys", "table", "view"];
    cc::Build::new()
        .files(sources.map(|name| format!("{shim}/{name}.c")))
        .include(shim)
        .include("../abi/include")
        .define("HWA_HOSTED", None)
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
    // Here the C library's functions wait for children.
    let is_source = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "c") && !path.ends_with("wait.c");
    let mut sources: Vec<_> = entries.filter(is_source).collect();
    sources.sort();
    cc::Build::new()
        .files(sources)
        .file("src/spawn/layout.c")
        .include("../spawn/include")
        .define("HWSP_WITHOUT_WAIT", None)
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .compile("headwater-spawn");
    println!("cargo::rerun-if-changed=../spawn");
    println!("cargo::rerun-if-changed=src/spawn/layout.c");
}
