//! A program and its debugger see original paths.

use headwater_tests::harness::{Fixture, Mechanism, Program};

pub fn objects_have_their_original_names(via: Mechanism) {
    let fixture = Fixture::new("names");
    fixture.library("lib/libdep.so", "dep", &[]);
    fixture.library("lib/libx.so", "x", &["-L{shared}/lib", "-ldep", "-Wl,-rpath,$ORIGIN:$ORIGIN/../more"]);
    let link = ["-Wl,--no-as-needed", "-L{shared}/lib", "-lx", "-Wl,-rpath,$ORIGIN/../lib"];
    let program = Program::new(fixture.build("loader.c", "bin/app", &link));
    let verbs =
        ["self", "where=dep", "where=printf", "objects", "links", "open=libx.so", "origin", "open=libdep.so", "origin"];
    let session = fixture.headwater().via(via).same(&program.args(verbs));
    assert!(!session.output.stdout.contains("/dev/shm"), "{:?}", session.output);
}

pub fn the_executable_has_its_original_name(via: Mechanism) {
    let fixture = Fixture::new("self");
    fixture.build("loader.c", "bin/app", &[]);
    fixture.link("app", "bin/other");
    fixture.link("bin", "tools");
    let shared = fixture.shared();
    for name in ["bin/app", "bin/other", "tools/app", "bin/../tools/other"] {
        fixture.headwater().via(via).same(&Program::new(shared.join(name)).args(["self", "objects"]));
    }
    let by_name = Program::new("app").arg("self").behind(["env".into(), format!("PATH={}/tools", shared.display())]);
    fixture.headwater().via(via).same(&by_name);
    fixture.headwater().via(via).same(&Program::new("bin/other").arg("self").in_dir(&shared));
    fixture
        .headwater()
        .via(via)
        .same(&Program::new("./app").args(["self", "chdir=/", "self"]).in_dir(fixture.path("tools")));
}

pub fn the_auxiliary_vector_has_the_original_name(via: Mechanism) {
    let fixture = Fixture::new("execfn");
    fixture.build("loader.c", "bin/app", &[]);
    fixture.headwater().via(via).same(&Program::new(fixture.path("bin/app")).arg("execfn"));
}

pub fn a_static_program_is_left_alone(via: Mechanism) {
    let fixture = Fixture::new("static");
    let tool = fixture.build("tool.c", "bin/tool", &["-static"]);
    let app = fixture.build("loader.c", "bin/app", &[]);
    fixture.headwater().via(via).same_output(&Program::new(&tool).arg("a"));
    fixture.headwater().via(via).same_output(&Program::new(app).args([&format!("exec={}", tool.display()), "a"]));
}
