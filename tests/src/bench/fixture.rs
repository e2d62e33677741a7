//! The programs of the benchmarks.

use std::path::PathBuf;
use std::process::Command;

use crate::harness::Fixture;

/// Libraries of the start-up benchmark.
pub const LIBRARIES: usize = 200;
/// Directories that they lie in, each an entry of the search path.
pub const DIRECTORIES: usize = 20;

/// `bin/app` with so many libraries in the directories `d0`, `d1` and so on, and `bin/empty` without.
pub fn many_libraries(libraries: usize, directories: usize) -> Fixture {
    let fixture = Fixture::new("bench");
    let rpath: Vec<String> = (0..directories).map(|n| format!("$ORIGIN/../d{n}")).collect();
    let rpath = format!("-Wl,--disable-new-dtags,-rpath,{}", rpath.join(":"));
    let mut flags = vec!["-Wl,--no-as-needed".to_string(), "-Wl,--allow-shlib-undefined".into(), rpath];
    (0..directories).for_each(|n| flags.push(format!("-L{{shared}}/d{n}")));
    for number in 0..libraries {
        // Neighbours in the loader's order lie in different directories.
        let name = format!("d{}/libbench{number}.so", number * 7 % directories);
        let own = [
            format!("-DNUMBER={number}"),
            format!("-DNEXT={}", (number + 1) % libraries),
            format!("-Wl,-soname,libbench{number}.so"),
        ];
        let all: Vec<&str> = ["-shared", "-fPIC", "-g0"].into_iter().chain(own.iter().map(String::as_str)).collect();
        fixture.build("bench/library.c", &name, &all);
        flags.push(format!("-lbench{number}"));
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    fixture.build("bench/main.c", "bin/app", &flags);
    fixture.build("bench/main.c", "bin/empty", &[]);
    fixture
}

/// The directory of a Python environment with numpy and scipy, made at the first use.
pub fn python_environment() -> Result<PathBuf, String> {
    let venv = crate::workspace().join("target/bench/venv");
    let python = venv.join("bin/python3");
    let import = Command::new(&python).args(["-c", "import scipy.stats"]).output();
    if import.is_ok_and(|output| output.status.success()) {
        return Ok(venv);
    }
    println!("making a Python environment with numpy and scipy in {}", venv.display());
    let mut steps = [Command::new("python3"), Command::new(&python)];
    steps[0].args(["-m", "venv", "--copies", "--clear"]).arg(&venv);
    steps[1].args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy", "scipy"]);
    for step in &mut steps {
        let output = step.output().map_err(|e| format!("{step:?}: {e}"))?;
        if !output.status.success() {
            return Err(format!("{step:?}: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(venv)
}
