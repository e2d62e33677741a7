//! Objects that are loaded and unloaded at run time, and the processes that programs make.

use std::fs;
use std::ops::Range;
use std::path::Path;

use headwater_tests::harness::{Fixture, Mechanism, Program, no_second_namespace, skipped};

/// A fixture with `bin/app` and `lib/libx.so`, which needs `lib/libdep.so`.
fn fixture() -> (Fixture, Program) {
    let fixture = Fixture::new("open");
    fixture.library("lib/libdep.so", "dep", &[]);
    fixture.library("lib/libx.so", "x", &["-L{shared}/lib", "-ldep", "-Wl,-rpath,$ORIGIN"]);
    let program = Program::new(fixture.build("loader.c", "bin/app", &["-Wl,-rpath,{shared}/lib"]));
    (fixture, program)
}

pub fn open_close_and_open_again(via: Mechanism) {
    let (fixture, program) = fixture();
    let absent = format!("open={}/lib/libabsent.so", fixture.shared().display());
    let verbs = ["open=libx.so", "call=x", "where=dep", "close", "objects", "open=libx.so", "call=x", "objects"];
    fixture.headwater().via(via).same(&program.clone().args(verbs).arg(&absent).args([
        "noload=libdep.so",
        "close",
        "noload=libx.so",
    ]));
    fixture.headwater().via(via).same(&program.args([
        "lazy=libx.so",
        "call=dep",
        "open=libx.so",
        "links",
        "close",
        "close",
    ]));
}

pub fn a_second_namespace(via: Mechanism) {
    if let Some(reason) = no_second_namespace(via) {
        return skipped(reason);
    }
    let (fixture, program) = fixture();
    let path = format!("mopen={}/lib/libx.so", fixture.shared().display());
    let verbs = ["call=x", "where=x", "where=dep", "origin", "open=libx.so", "where=x", "objects"];
    fixture.headwater().via(via).same(&program.clone().arg(&path).args(verbs));
    fixture
        .headwater()
        .via(via)
        .same(&program.args([&path, &path, &path, &path, &path]).args(["call=dep", "close", "objects"]));
}

pub fn from_threads(via: Mechanism) {
    let (fixture, program) = fixture();
    fixture.headwater().via(via).same(&program.args([
        "threads=libx.so",
        "open=libx.so",
        "call=dep",
        "objects",
        "threads=libnone.so",
    ]));
}

pub fn in_a_forked_child(via: Mechanism) {
    let (fixture, program) = fixture();
    let verbs = ["fork", "open=libx.so", "open=libdep.so", "fork", "where=dep", "fork", "threads=libx.so", "call=dep"];
    fixture.headwater().via(via).same(&program.args(verbs));
}

pub fn programs_that_start_programs(via: Mechanism) {
    let (fixture, program) = fixture();
    let app = fixture.path("bin/app");
    let shared = fixture.shared();
    for verb in ["exec", "vfork", "spawn"] {
        let start = format!("{verb}={}", app.display());
        let again = format!("self open=libx.so where=dep open={}/lib/none.so", shared.display());
        let nothing = format!("{verb}={}/bin/none", shared.display());
        fixture
            .headwater()
            .via(via)
            .same(&program.clone().args([&start, &again, &nothing, "", &start, "objects"]).arg("open=libx.so"));
    }
    let by_name = program.args(["spawn=app", "self open=libx.so", "spawn=absent-program", "x"]);
    let path = format!("PATH={}/bin:/usr/bin:/bin", shared.display());
    fixture.headwater().via(via).same(&by_name.behind(["env", &path]));
}

pub fn exceptions_cross_libraries(via: Mechanism) {
    let fixture = Fixture::new("throw");
    fixture.build("thrower.cpp", "lib/libthrower.so", &["-shared", "-fPIC", "-Wl,-soname,libthrower.so"]);
    let link = ["-L{shared}/lib", "-lthrower", "-Wl,-rpath,$ORIGIN/../lib"];
    let program = Program::new(fixture.build("catcher.cpp", "bin/catcher", &link));
    let session = fixture.headwater().via(via).same(&program.arg(fixture.path("lib/libthrower.so")));
    assert!(session.output.stdout.contains("caught"), "{:?}", session.output);
    assert_eq!(session.output.status, 0);
}

/// A fixture with `bin/tls`, whose libraries have so many bytes of static thread-local storage each, and
/// with `lib/libopened.so` and `lib/libdynamic.so` for it to open.
fn fixture_with_tls(needed: &[usize], opened: usize) -> (Fixture, Program) {
    let fixture = Fixture::new("tls");
    let library = |name: &str, bytes: usize, flags: &[&str]| {
        let bytes = format!("-DBYTES={bytes}");
        let flags = [&["-shared", "-fPIC", &bytes], flags].concat();
        fixture.build("tls_library.c", &format!("lib/lib{name}.so"), &flags);
    };
    let mut link = vec!["-Wl,--no-as-needed".to_owned(), "-L{shared}/lib".to_owned()];
    for (number, &bytes) in needed.iter().enumerate() {
        library(&format!("needed{number}"), bytes, &["-ftls-model=initial-exec"]);
        link.push(format!("-lneeded{number}"));
    }
    link.push("-Wl,-rpath,$ORIGIN/../lib".to_owned());
    library("opened", opened, &["-ftls-model=initial-exec"]);
    library("dynamic", 50_000, &[]);
    let link: Vec<&str> = link.iter().map(String::as_str).collect();
    let program = Program::new(fixture.build("tls.c", "bin/tls", &link));
    let opened = ["libopened.so", "libdynamic.so"].map(|name| fixture.path("lib").join(name));
    (fixture, program.args(opened))
}

#[test]
fn thread_local_storage() {
    for (needed, opened, status) in [
        (&[100][..], 1300, 0),
        (&[600, 500], 1300, 0),
        (&[6000, 3000], 1300, 0),
        (&[6000, 3000], 2000, 1),
        (&[100, 40_000], 900, 0),
    ] {
        let (fixture, program) = fixture_with_tls(needed, opened);
        let session = fixture.headwater().same(&program);
        assert_eq!(session.output.status, status, "{:?}", session.output);
        fixture.headwater().same(&program.behind(["env"]));
        fixture.headwater().same(&program.behind(["sh", "-c", "\"$0\" \"$@\"; exit $?"]));
    }
}

#[test]
fn thread_local_storage_with_the_programs_own_tunables() {
    let (fixture, program) = fixture_with_tls(&[6000, 3000], 3000);
    for (tunables, status) in [
        ("glibc.rtld.optional_static_tls=2048", 0),
        ("glibc.rtld.optional_static_tls=020000:glibc.malloc.perturb=1", 0),
        ("glibc.rtld.optional_static_tls=9000:x:glibc.rtld.optional_static_tls=0x10", 1),
        ("glibc.malloc.perturb=1", 1),
        ("", 1),
    ] {
        let variable = format!("GLIBC_TUNABLES={tunables}");
        let session = fixture.headwater().same(&program.behind(["env", &variable]));
        assert_eq!(session.output.status, status, "{tunables}: {:?}", session.output);
        fixture.headwater().same(&program.clone().env("GLIBC_TUNABLES", tunables));
    }
}

#[test]
fn thread_local_storage_of_an_interpreter() {
    let (fixture, _) = fixture_with_tls(&[6000, 3000], 900);
    let interpreter = fixture.path("bin/tls").display().to_string();
    let script =
        fixture.file("bin/script", format!("#!{interpreter} {}/lib/libopened.so\n", fixture.shared().display()), 0o755);
    fixture.headwater().same(&Program::new(&script));
    fixture.headwater().same(&Program::new(&script).behind(["env"]));
}

/// Moves the program headers of an ELF file behind all else, as tools do that edit libraries.
fn move_program_headers(path: &Path) {
    const PLACE: Range<usize> = 32..40;
    const ENTRY_BYTES: usize = 56;
    let mut file = fs::read(path).unwrap();
    let from = u64::from_le_bytes(file[PLACE].try_into().unwrap()) as usize;
    let bytes = usize::from(u16::from_le_bytes([file[56], file[57]])) * ENTRY_BYTES;
    file.resize(file.len().next_multiple_of(8), 0);
    let to = file.len() as u64;
    file.extend_from_within(from..from + bytes);
    file[from..from + bytes].fill(0);
    file[PLACE].copy_from_slice(&to.to_le_bytes());
    fs::write(path, file).unwrap();
}

#[test]
fn thread_local_storage_of_libraries_whose_headers_were_moved() {
    let (fixture, program) = fixture_with_tls(&[6000, 3000], 1300);
    move_program_headers(&fixture.path("lib/libneeded1.so"));
    let session = fixture.headwater().same(&program);
    assert_eq!(session.output.status, 0, "{:?}", session.output);
}

#[test]
fn thread_local_storage_with_a_large_alignment() {
    let fixture = Fixture::new("aligned");
    let flags = ["-shared", "-fPIC", "-ftls-model=initial-exec", "-DBYTES=100", "-DALIGN=256"];
    fixture.build("tls_library.c", "lib/libaligned.so", &flags);
    let link = ["-Wl,--no-as-needed", "-L{shared}/lib", "-laligned", "-Wl,-rpath,$ORIGIN/../lib"];
    let program = Program::new(fixture.build("tls.c", "bin/aligned", &link));
    let session = fixture.headwater().same(&program);
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    fixture.headwater().same(&program.behind(["env"]));
}

#[test]
fn thread_local_storage_of_libraries_named_by_path() {
    let (fixture, _) = fixture_with_tls(&[3000, 4000, 5000], 100);
    let paths = [0, 1, 2].map(|number| format!("{{shared}}/lib/libneeded{number}.so"));
    let link = ["-Wl,--no-as-needed", "-lc", &paths[0], &paths[1], &paths[2]];
    let program = Program::new(fixture.build("tls.c", "bin/paths", &link));
    let session = fixture.headwater().same(&program);
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    fixture.headwater().same(&program.env("LD_PRELOAD", fixture.path("lib/libneeded1.so")));
}
