//! Compiles C readers for their fuzz targets, hosted and under gcc's sanitizers.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Targets whose C code is checked by AddressSanitizer.
const C_TARGETS: [&str; 6] = ["shim_table", "shim_ldcache", "spawn_request", "mpiio_message", "mpiio_text", "carrier"];
/// Stand-ins for an MPI's header, and the I/O library with the floors of its core.
const MPI: &str = "../mpiio/tests/stand";
const MPIIO: &str = "../mpiio";
const FLOORS: [&str; 5] = ["base", "memory", "mpi", "transfer", "intercept"];

fn main() {
    for directory in ["shim", "../shim/audit", "../mpiio", "../abi/include", "../spawn", "../integrations/fabric"] {
        println!("cargo:rerun-if-changed={directory}");
    }
    let mut build = cc::Build::new();
    build.compiler("gcc").std("c11").opt_level(1).debug(true).define("HWA_HOSTED", None);
    build.include("../shim/audit").include("../abi/include");
    build.clone().file("shim/coverage.c").compile("headwater-coverage");
    build.flag("-fsanitize=address,undefined").flag("-fsanitize-undefined-trap-on-error");
    build.flag("-fsanitize-coverage=trace-pc,trace-cmp");
    let mut spawn = build.clone();
    spawn.include("../spawn/include").include("../spawn/core");
    spawn.files(["shim/spawn.c", "../spawn/core/wire.c"]).compile("headwater-spawn-wire");
    build.clone().files(["shim/fabric.c", "../integrations/fabric/wire.c"]).compile("headwater-fabric-wire");
    build_mpiio(&build);
    build.clone().file("shim/ldcache.c").compile("headwater-ldcache");
    build.files(["shim/table.c", "../shim/audit/resolve.c", "../shim/audit/path.c"]).compile("headwater-table");

    // Statically: the shared run-time insists on being the first library, and rustc has its own order.
    let output = Command::new("gcc").arg("-print-file-name=libasan.a").output().expect("gcc is installed");
    let library = String::from_utf8(output.stdout).expect("gcc's paths are UTF-8");
    for target in C_TARGETS {
        // libFuzzer has a function of this name too, which only prints that it is no longer supported.
        println!("cargo:rustc-link-arg-bin={target}=-Wl,--wrap=__sanitizer_cov_trace_pc");
        println!("cargo:rustc-link-arg-bin={target}=-Wl,--whole-archive,{},--no-whole-archive", library.trim());
    }
}

/// The core as a whole, but for what the targets' own files include.
fn build_mpiio(build: &cc::Build) {
    let mut core = build.clone();
    core.define("_GNU_SOURCE", None).include(MPI).include("../mpiio/calls").include(MPIIO);
    core.flag("-include").flag("real.h");
    // The audit library has a function of this name too, and all targets are linked with one archive.
    core.define("hwio_finish", "hwio_finish_mpi");
    // The target sets the time.
    let mut engine = core.clone();
    engine.define("hwio_seconds", "hwio_engine_seconds").file(format!("{MPIIO}/base/engine.c"));
    engine.compile("headwater-mpiio-engine");
    let mut folders: Vec<PathBuf> = FLOORS.iter().map(|floor| Path::new(MPIIO).join(floor)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the core is there") {
            let path = entry.expect("a folder can be read").path();
            let is_apart = ["engine.c", "profile.c", "mounts.c", "scatter.c"].iter().any(|name| path.ends_with(name));
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "c") && !is_apart {
                core.file(path);
            }
        }
    }
    core.file(format!("{MPI}/real.c")).files(["shim/mpiio-message.c", "shim/mpiio-text.c"]);
    core.compile("headwater-mpiio");
}
