//! Where the loader finds libraries: each rule of `ld.so(8)`, with the winner visible in the output.

mod graph;

use headwater_tests::harness::{Fixture, Mechanism, Program};

/// `bin/app`, linked with `libx.so` of each directory given, with more flags.
fn app(fixture: &Fixture, link_dir: &str, libraries: &[&str], flags: &[&str]) -> Program {
    let dir = format!("-L{{shared}}/{link_dir}");
    let named: Vec<String> = libraries.iter().map(|name| format!("-l{name}")).collect();
    let mut all = vec!["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", dir.as_str()];
    all.extend(named.iter().map(String::as_str));
    all.extend(flags);
    Program::new(fixture.build("loader.c", "bin/app", &all))
}

/// Builds `libx.so` in each of these directories, tagged with the directory.
fn everywhere(fixture: &Fixture, dirs: &[&str]) {
    dirs.iter().for_each(|dir| drop(fixture.library(&format!("{dir}/libx.so"), dir, &[])));
}

pub fn rpath_runpath_and_library_path(via: Mechanism) {
    let fixture = Fixture::new("order");
    everywhere(&fixture, &["one", "two"]);
    let search = fixture.path("two");
    for tags in ["-Wl,--disable-new-dtags", "-Wl,--enable-new-dtags"] {
        let program = app(&fixture, "one", &["x"], &[tags, "-Wl,-rpath,{shared}/none:{shared}/one"]);
        let program = program.args(["call=x", "objects", "links"]);
        fixture.headwater().via(via).same(&program);
        let winner = fixture
            .headwater()
            .via(via)
            .same(&program.behind(["env", &format!("LD_LIBRARY_PATH={}", search.display())]));
        let expected = if tags.contains("disable") { "x() = one\n" } else { "x() = two\n" };
        assert!(winner.output.stdout.starts_with(expected), "{tags}: {:?}", winner.output);
        fixture.headwater().via(via).same(&program.env("LD_LIBRARY_PATH", &search));
    }
}

pub fn origin_in_dependencies_of_dependencies(via: Mechanism) {
    let fixture = Fixture::new("origin");
    fixture.library("pkg/c/lib/libc3.so", "c3", &[]);
    fixture.library("pkg/b/lib/libb2.so", "b2", &["-L{shared}/pkg/c/lib", "-lc3", "-Wl,-rpath,$ORIGIN/../../c/lib"]);
    fixture.library(
        "pkg/a/lib/liba1.so",
        "a1",
        &[
            "-L{shared}/pkg/b/lib",
            "-lb2",
            "-Wl,--allow-shlib-undefined",
            "-Wl,-rpath,${ORIGIN}/../lib:$ORIGIN/../../b/lib",
        ],
    );
    let program = app(&fixture, "pkg/a/lib", &["a1"], &["-Wl,-rpath,$ORIGIN/../pkg/a/lib"]);
    let session = fixture
        .headwater()
        .via(via)
        .same(&program.args(["call=a1", "call=b2", "call=c3", "where=c3", "objects", "links"]));
    assert!(session.output.stdout.contains("c3() = c3"), "{:?}", session.output);
}

#[test]
fn rpath_is_inherited_and_runpath_is_not() {
    let fixture = Fixture::new("inherit");
    fixture.library("deps/libzed.so", "zed", &[]);
    fixture.library("libs/liby.so", "y", &["-L{shared}/deps", "-lzed"]);
    for tags in ["-Wl,--disable-new-dtags", "-Wl,--enable-new-dtags"] {
        let program = app(&fixture, "libs", &["y"], &[tags, "-Wl,-rpath,$ORIGIN/../libs:$ORIGIN/../deps"]);
        let session = fixture.headwater().same_output(&program.args(["call=zed", "objects"]));
        assert_eq!(session.output.status == 0, tags.contains("disable"), "{:?}", session.output);
    }
}

#[test]
fn lib_and_platform_tokens() {
    let fixture = Fixture::new("tokens");
    everywhere(&fixture, &["t/lib", "t/lib64", "t/lib/x86_64-linux-gnu", "t/p/x86_64", "t/p/haswell", "t/p/xeon_phi"]);
    for rpath in ["{shared}/t/$LIB", "{shared}/t/p/$PLATFORM", "$ORIGIN/../t/${LIB}"] {
        let program = app(&fixture, "t/lib", &["x"], &[&format!("-Wl,-rpath,{rpath}")]);
        fixture.headwater().same(&program.args(["call=x", "objects"]));
    }
}

pub fn hwcaps_directories(via: Mechanism) {
    let fixture = Fixture::new("hwcaps");
    everywhere(&fixture, &["lib", "lib/glibc-hwcaps/x86-64-v2", "lib/glibc-hwcaps/x86-64-v4", "other"]);
    let by_rpath = app(&fixture, "lib", &["x"], &["-Wl,-rpath,{shared}/none:{shared}/lib"]).args(["call=x", "objects"]);
    fixture.headwater().via(via).same(&by_rpath);
    let path = format!("LD_LIBRARY_PATH={0}/other2:{0}/lib:{0}/other", fixture.shared().display());
    let by_path = app(&fixture, "lib", &["x"], &[]).args(["call=x", "objects"]).behind(["env", &path]);
    fixture.headwater().via(via).same(&by_path);
    let opened = Program::new(fixture.build("loader.c", "bin/app", &[])).args(["open=libx.so", "call=x", "origin"]);
    fixture.headwater().via(via).same(&opened.behind(["env", &path]));
}

pub fn preloaded_libraries(via: Mechanism) {
    let fixture = Fixture::new("preload");
    everywhere(&fixture, &["lib", "pre"]);
    let program = app(&fixture, "lib", &["x"], &["-Wl,-rpath,{shared}/lib"]).args(["call=x", "objects", "links"]);
    let shared = fixture.shared();
    let preload = format!("LD_PRELOAD={}/pre/libx.so", shared.display());
    let session = fixture.headwater().via(via).same(&program.behind(["env", &preload]));
    assert!(session.output.stdout.starts_with("x() = pre\n"), "{:?}", session.output);
    let by_name = format!("LD_LIBRARY_PATH={}/pre", shared.display());
    fixture.headwater().via(via).same(&program.behind(["env", "LD_PRELOAD=libx.so libnope.so", &by_name]));
    let missing = format!("LD_PRELOAD={0}/lib/nope.so:{0}/pre/libx.so", shared.display());
    fixture.headwater().via(via).same(&program.behind(["env", &missing]));
}

pub fn system_libraries_and_absent_ones(via: Mechanism) {
    let fixture = Fixture::new("cache");
    everywhere(&fixture, &["lib"]);
    let program = app(&fixture, "lib", &["x"], &["-Wl,-rpath,{shared}/lib"]);
    let verbs = ["open=libm.so.6", "where=cos", "open=libnope.so.9", "open=/no/such/libnope.so", "noload=libx.so"];
    fixture
        .headwater()
        .via(via)
        .same(&program.clone().args(verbs).arg(format!("open={}/lib/libnope.so", fixture.shared().display())));
    std::fs::remove_file(fixture.path("lib/libx.so")).expect("built above");
    let session = fixture.headwater().via(via).same_output(&program.arg("objects"));
    assert_eq!(session.output.status, 127);
    assert!(session.output.stderr.contains("libx.so: cannot open shared object file"), "{:?}", session.output);
}

pub fn relative_paths(via: Mechanism) {
    let fixture = Fixture::new("relative");
    everywhere(&fixture, &["lib", "lib/sub", "cwd"]);
    let program = app(&fixture, "lib", &["x"], &["-Wl,-rpath,lib"]).in_dir(fixture.shared());
    fixture.headwater().via(via).same(&program.clone().args(["call=x", "where=x", "objects"]));
    let chdir = format!("chdir={}/lib", fixture.shared().display());
    let verbs = ["call=x", "open=./libx.so", "where=x", "open=sub/libx.so", "where=x", "open=../cwd/libx.so", "origin"];
    fixture.headwater().via(via).same(&program.clone().arg(&chdir).args(verbs).arg("open=./libnope.so").arg("objects"));
    for path in ["cwd", "cwd:lib", ":lib", "lib:", "lib/../cwd", "./lib/."] {
        let variable = format!("LD_LIBRARY_PATH={path}");
        fixture.headwater().via(via).same(&program.clone().args(["call=x", "objects"]).behind(["env", &variable]));
    }
}

pub fn symbolic_links(via: Mechanism) {
    let fixture = Fixture::new("links");
    fixture.library("real/libx.so.1.2.3", "real", &["-Wl,-soname,libx.so.1"]);
    fixture.link("libx.so.1.2.3", "real/libx.so.1");
    fixture.link("libx.so.1", "real/libx.so");
    fixture.link("real", "a");
    fixture.link("./a/../a", "b");
    fixture.link(fixture.path("b"), "absolute");
    fixture.link("libnope.so", "real/libdangling.so");
    fixture.link("liby.so", "real/libz.so");
    fixture.link("libz.so", "real/liby.so");
    std::os::unix::fs::symlink(fixture.shared(), fixture.outside("alias")).expect("an own directory");
    fixture.link("../../alias/real", "detour");
    let program = app(&fixture, "real", &["x"], &["-Wl,-rpath,{shared}/absolute"]).args(["call=x", "objects"]);
    let path = |name: &str| format!("open={}/{name}", fixture.shared().display());
    let names =
        ["a/libx.so", "b/libx.so.1", "absolute/libx.so", "detour/libx.so", "real/../a/libx.so", "real/libdangling.so"];
    let session = fixture.headwater().via(via).same(
        &program
            .args(names.map(path))
            .arg(path("real/liby.so"))
            .arg(path("real/libx.so/"))
            .arg(path("a/nope/libx.so"))
            .arg("objects"),
    );
    assert!(session.output.stdout.contains("(already open)"), "{:?}", session.output);
}

pub fn one_file_under_two_names_is_loaded_once(via: Mechanism) {
    let fixture = Fixture::new("twice");
    everywhere(&fixture, &["lib"]);
    std::fs::hard_link(fixture.path("lib/libx.so"), fixture.path("lib/hard.so")).expect("an own directory");
    fixture.link("libx.so", "lib/soft.so");
    std::os::unix::fs::symlink(fixture.path("lib"), fixture.outside("around")).expect("an own directory");
    let program = Program::new(fixture.build("loader.c", "bin/app", &[]));
    let inside = |name: &str| format!("open={}/lib/{name}", fixture.shared().display());
    let around = format!("open={}", fixture.outside("around/libx.so").display());
    let session = fixture.headwater().via(via).same(
        &program.clone().args([inside("libx.so"), inside("soft.so"), inside("hard.so"), around.clone()]).arg("objects"),
    );
    assert_eq!(session.output.stdout.matches("already open").count(), 3, "{:?}", session.output);
    fixture.headwater().via(via).same(&program.args([around, inside("hard.so"), inside("libx.so")]).arg("objects"));
}

#[test]
fn files_that_are_no_libraries() {
    let fixture = Fixture::new("alien");
    everywhere(&fixture, &["good", "class"]);
    fixture.file("text/libx.so", "INPUT(-lc)\n", 0o644);
    fixture.file("empty/libx.so", "", 0o644);
    fixture.dir("directory/libx.so");
    let mut bytes = std::fs::read(fixture.path("class/libx.so")).expect("built above");
    bytes[4] = 1;
    fixture.file("class/libx.so", bytes, 0o755);
    fixture.file("short/libx.so", &std::fs::read(fixture.path("good/libx.so")).expect("built above")[..200], 0o755);
    for first in ["text", "empty", "directory", "class", "short"] {
        let path = format!("LD_LIBRARY_PATH={0}/{first}:{0}/good", fixture.shared().display());
        let program = Program::new(fixture.build("loader.c", "bin/app", &[]));
        let direct = format!("open={}/{first}/libx.so", fixture.shared().display());
        fixture.headwater().same_output(&program.args(["open=libx.so", "call=x"]).arg(direct).behind(["env", &path]));
    }
}

#[test]
fn a_needed_name_with_a_slash() {
    let fixture = Fixture::new("slash");
    fixture.library("lib/libx.so", "x", &["-Wl,-soname,./lib/libx.so"]);
    let program = app(&fixture, "lib", &["x"], &[]).args(["call=x", "where=x", "objects"]);
    fixture.headwater().same(&program.clone().in_dir(fixture.shared()));
    fixture.headwater().same_output(&program.in_dir(fixture.path("lib")));
}

#[test]
fn a_directory_whose_name_begins_with_lib() {
    let fixture = Fixture::new("libdir");
    everywhere(&fixture, &["libfoo", "libfoo.so/inner"]);
    let program = app(&fixture, "libfoo", &["x"], &["-Wl,-rpath,{shared}/libfoo"]).in_dir(fixture.shared());
    let verbs =
        ["call=x", "open=libfoo.so/inner/libx.so", "where=x", "open=libfoo.so", "open=libfoo/libx.so", "objects"];
    fixture.headwater().same(&program.args(verbs));
}
