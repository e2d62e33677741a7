//! Programs without a loader, into which no library can be loaded.

use std::path::PathBuf;
use std::process::Command;

use headwater_tests::harness::{Fixture, Mechanism, Program, has_program, skipped};
use headwater_tests::workspace;

fn tree(fixture: &Fixture) {
    fixture.file("tree/file", "forty-two bytes and some more of them, see\n", 0o644);
    fixture.file("tree/sub/inner", "inner", 0o640);
    fixture.link("file", "tree/link");
    fixture.link("nowhere", "tree/dangling");
    fixture.file("tree/large", vec![7; 300_000], 0o604);
}

/// Runs it so that the audit mechanism, which leaves it alone, passes too.
fn check(via: Mechanism, fixture: &Fixture, program: &Program) {
    if via == Mechanism::Audit {
        fixture.headwater().via(via).run(program).output.assert_same(&program.run());
    } else {
        fixture.headwater().via(via).same_output(program);
    }
}

pub fn a_static_program_in_c(via: Mechanism) {
    let fixture = Fixture::new("staticc");
    tree(&fixture);
    let files = fixture.build("files.c", "bin/files", &["-static", "-Wno-nonnull", "-Wno-unused-result"]);
    check(via, &fixture, &Program::new(files).arg(fixture.path("tree")).arg("mounted"));
    let tool = fixture.build("tool.c", "bin/tool", &["-static"]);
    check(via, &fixture, &Program::new(&tool).args(["a", "b c"]));
    check(via, &fixture, &Program::shell(&format!("{0} x; exec {0} y", tool.display())));
}

/// Builds `tests/programs/walk.go`; its libraries are compiled once for all tests.
fn go(fixture: &Fixture) -> Result<PathBuf, String> {
    let binary = fixture.path("bin/walk");
    std::fs::create_dir_all(binary.parent().expect("in bin")).expect("an own directory");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&binary).arg(workspace().join("tests/programs/walk.go"));
    build.env("CGO_ENABLED", "0").env("GO111MODULE", "off").env("GOTOOLCHAIN", "local").env("GOFLAGS", "");
    build.env("GOCACHE", workspace().join("target/go-cache")).env("GOPATH", workspace().join("target/go-path"));
    let output = build.output().map_err(|e| format!("go: {e}"))?;
    if output.status.success() { Ok(binary) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

pub fn a_static_program_in_go(via: Mechanism) {
    if !has_program("go") {
        return skipped("go is not installed");
    }
    let fixture = Fixture::new("staticgo");
    tree(&fixture);
    let binary = go(&fixture).unwrap_or_else(|e| panic!("{e}"));
    check(via, &fixture, &Program::new(binary).arg(fixture.path("tree")));
}
