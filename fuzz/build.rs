//! Compiles C readers for their fuzz targets, hosted and under gcc's sanitizers.

use std::process::Command;

/// Targets whose C code is checked by AddressSanitizer.
const C_TARGETS: [&str; 3] = ["shim_table", "shim_ldcache", "spawn_request"];

fn main() {
    for directory in ["shim", "../shim/audit", "../abi/include", "../spawn"] {
        println!("cargo:rerun-if-changed={directory}");
    }
    let mut build = cc::Build::new();
    build.compiler("gcc").std("c11").opt_level(1).debug(true).define("HW_HOSTED", None);
    build.include("../shim/audit").include("../abi/include");
    build.clone().file("shim/coverage.c").compile("headwater-coverage");
    build.flag("-fsanitize=address,undefined").flag("-fsanitize-undefined-trap-on-error");
    build.flag("-fsanitize-coverage=trace-pc,trace-cmp");
    let mut spawn = build.clone();
    spawn.include("../spawn/include").include("../spawn/core");
    spawn.files(["shim/spawn.c", "../spawn/core/wire.c"]).compile("headwater-spawn-wire");
    build.clone().file("shim/ldcache.c").compile("headwater-ldcache");
    build.files(["shim/table.c", "../shim/audit/resolve.c", "../shim/audit/path.c"]).compile("headwater-table");

    // Statically: the shared run-time insists on being the first library, and rustc has its own order.
    let output = Command::new("gcc").arg("-print-file-name=libasan.a").output().expect("gcc is installed");
    let library = String::from_utf8(output.stdout).expect("gcc's paths are UTF-8");
    for target in C_TARGETS {
        // libFuzzer has a function of this name too, which only says that it is no longer supported.
        println!("cargo:rustc-link-arg-bin={target}=-Wl,--wrap=__sanitizer_cov_trace_pc");
        println!("cargo:rustc-link-arg-bin={target}=-Wl,--whole-archive,{},--no-whole-archive", library.trim());
    }
}
