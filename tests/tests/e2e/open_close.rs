//! Objects that come and go at run time, and the processes that programs make.

use headwater_tests::harness::{Fixture, Program};

/// A fixture with `bin/app` and `lib/libx.so`, which needs `lib/libdep.so`.
fn fixture() -> (Fixture, Program) {
    let fixture = Fixture::new("open");
    fixture.library("lib/libdep.so", "dep", &[]);
    fixture.library("lib/libx.so", "x", &["-L{shared}/lib", "-ldep", "-Wl,-rpath,$ORIGIN"]);
    let program = Program::new(fixture.build("loader.c", "bin/app", &["-Wl,-rpath,{shared}/lib"]));
    (fixture, program)
}

#[test]
fn open_close_and_open_again() {
    let (fixture, program) = fixture();
    let absent = format!("open={}/lib/libabsent.so", fixture.shared().display());
    let verbs = ["open=libx.so", "call=x", "where=dep", "close", "objects", "open=libx.so", "call=x", "objects"];
    fixture.headwater().same(&program.clone().args(verbs).arg(&absent).args([
        "noload=libdep.so",
        "close",
        "noload=libx.so",
    ]));
    fixture.headwater().same(&program.args(["lazy=libx.so", "call=dep", "open=libx.so", "links", "close", "close"]));
}

#[test]
fn a_second_namespace() {
    let (fixture, program) = fixture();
    let path = format!("mopen={}/lib/libx.so", fixture.shared().display());
    let verbs = ["call=x", "where=x", "where=dep", "origin", "open=libx.so", "where=x", "objects"];
    fixture.headwater().same(&program.clone().arg(&path).args(verbs));
    fixture.headwater().same(&program.args([&path, &path, &path, &path, &path]).args(["call=dep", "close", "objects"]));
}

#[test]
fn from_threads() {
    let (fixture, program) = fixture();
    fixture.headwater().same(&program.args([
        "threads=libx.so",
        "open=libx.so",
        "call=dep",
        "objects",
        "threads=libnone.so",
    ]));
}

#[test]
fn in_a_forked_child() {
    let (fixture, program) = fixture();
    let verbs = ["fork", "open=libx.so", "open=libdep.so", "fork", "where=dep", "fork", "threads=libx.so", "call=dep"];
    fixture.headwater().same(&program.args(verbs));
}

#[test]
fn programs_that_start_programs() {
    let (fixture, program) = fixture();
    let app = fixture.path("bin/app");
    let shared = fixture.shared();
    for verb in ["exec", "vfork", "spawn"] {
        let start = format!("{verb}={}", app.display());
        let again = format!("self open=libx.so where=dep open={}/lib/none.so", shared.display());
        let nothing = format!("{verb}={}/bin/none", shared.display());
        fixture
            .headwater()
            .same(&program.clone().args([&start, &again, &nothing, "", &start, "objects"]).arg("open=libx.so"));
    }
    let by_name = program.args(["spawn=app", "self open=libx.so", "spawn=absent-program", "x"]);
    let path = format!("PATH={}/bin:/usr/bin:/bin", shared.display());
    fixture.headwater().same(&by_name.behind(["env", &path]));
}

#[test]
fn exceptions_cross_libraries() {
    let fixture = Fixture::new("throw");
    fixture.build("thrower.cpp", "lib/libthrower.so", &["-shared", "-fPIC", "-Wl,-soname,libthrower.so"]);
    let link = ["-L{shared}/lib", "-lthrower", "-Wl,-rpath,$ORIGIN/../lib"];
    let program = Program::new(fixture.build("catcher.cpp", "bin/catcher", &link));
    let session = fixture.headwater().same(&program.arg(fixture.path("lib/libthrower.so")));
    assert!(session.output.stdout.contains("caught"), "{:?}", session.output);
    assert_eq!(session.output.status, 0);
}

#[test]
fn thread_local_storage() {
    let fixture = Fixture::new("tls");
    let model = ["-shared", "-fPIC", "-ftls-model=initial-exec"];
    let bytes = |count: &'static str| [model[0], model[1], model[2], count];
    fixture.build("tls_library.c", "lib/libneeded1.so", &bytes("-DBYTES=6000"));
    fixture.build("tls_library.c", "lib/libneeded2.so", &bytes("-DBYTES=3000"));
    fixture.build("tls_library.c", "lib/libopened.so", &bytes("-DBYTES=900"));
    fixture.build("tls_library.c", "lib/libdynamic.so", &["-shared", "-fPIC", "-DBYTES=50000"]);
    let link = ["-Wl,--no-as-needed", "-L{shared}/lib", "-lneeded1", "-lneeded2", "-Wl,-rpath,$ORIGIN/../lib"];
    let program = Program::new(fixture.build("tls.c", "bin/tls", &link));
    let opened = ["libopened.so", "libdynamic.so"].map(|name| fixture.path("lib").join(name));
    let session = fixture.headwater().same(&program.clone().args(&opened));
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    let program = program.args(&opened);
    fixture.headwater().same(&program.behind(["env"]));
    fixture.headwater().same(&program.behind(["env", "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=2048"]));
}
