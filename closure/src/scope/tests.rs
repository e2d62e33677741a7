use super::*;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::process::Command;

/// A tree in which everything below `net` counts as a network file system.
struct Site {
    _directory: tempfile::TempDir,
    root: PathBuf,
    variables: HashMap<String, String>,
    cwd: PathBuf,
}

impl Site {
    fn new(directories: &[&str]) -> Site {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["net", "local", "net/run"].iter().chain(directories) {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        Site { cwd: root.join("local"), _directory: directory, root, variables: HashMap::new() }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    /// Sets a variable; `@` in its value stands for the tree.
    fn set(mut self, name: &str, value: &str) -> Site {
        self.variables.insert(name.into(), value.replace('@', self.root.to_str().unwrap()));
        self
    }

    fn discover(&self, program: &str, shared: &[&str], exclude: &[&str]) -> Scope {
        let paths = |names: &[&str]| names.iter().map(|n| self.root.join(n)).collect::<Vec<_>>();
        let (shared, exclude) = (paths(shared), paths(exclude));
        let network = |path: &Path| path.starts_with(self.root.join("net")).then_some("NFS");
        let variable = |name: &str| self.variables.get(name).map(OsString::from);
        let world = World { cwd: &self.cwd, variable: &variable, network: &network, open: &|path| File::open(path) };
        Scope::discover(&self.root.join(program), Named { shared: &shared, exclude: &exclude }, world)
    }

    /// Returns the scope's entries, `+` or `-` and the path below the tree.
    fn entries(&self, scope: &Scope) -> Vec<String> {
        let shown = |e: &Entry| {
            let path = e.path.strip_prefix(&self.root).unwrap_or(&e.path);
            format!("{}{}", if e.included { '+' } else { '-' }, path.display())
        };
        scope.entries.iter().map(shown).collect()
    }

    fn check(&self, program: &str, expected: &[&str]) {
        let scope = self.discover(program, &[], &[]);
        assert_eq!(self.entries(&scope), expected, "{scope}");
    }
}

#[test]
fn the_executable_and_the_libraries_beside_it() {
    let site = Site::new(&["net/app/bin", "net/app/lib", "net/app/data"]);
    site.file("net/app/bin/app", "");
    site.check("net/app/bin/app", &["+net/app/bin", "+net/app/lib"]);
}

#[test]
fn local_software_is_not_served() {
    let site = Site::new(&["local/app/lib"]);
    site.file("local/app/bin/app", "");
    site.check("local/app/bin/app", &[]);
    let scope = site.discover("local/app/bin/app", &["local/app"], &[]);
    assert_eq!(site.entries(&scope), ["+local/app"]);
    assert!(Site::new(&[]).discover("local/x", &[], &[]).to_string().contains("--shared DIR"));
}

#[test]
fn interpreters_have_their_whole_prefix() {
    let site = Site::new(&["net/python/lib/python3.11"]);
    site.file("net/python/bin/python3.11", "");
    site.check("net/python/bin/python3.11", &["+net/python"]);
}

#[test]
fn a_virtual_environment_and_its_base() {
    let site = Site::new(&["net/base/lib", "net/env/lib"]).set("VIRTUAL_ENV", "@/net/env");
    site.file("net/base/bin/python3", "");
    fs::create_dir_all(site.root.join("net/env/bin")).unwrap();
    symlink(site.root.join("net/base/bin/python3"), site.root.join("net/env/bin/python")).unwrap();
    site.check("net/env/bin/python", &["+net/env", "+net/base"]);
    // A copy, as on systems without links: only the configuration leads to the base.
    site.file("net/env/bin/python3", "");
    site.check("net/env/bin/python3", &["+net/env"]);
    site.file("net/env/pyvenv.cfg", &format!("home = {}\n", site.root.join("net/base/bin").display()));
    site.check("net/env/bin/python3", &["+net/env", "+net/base"]);
}

#[test]
fn scripts_lead_to_their_interpreter() {
    let site = Site::new(&["net/perl/lib"]).set("PATH", "@/net/perl/bin");
    site.file("net/perl/bin/perl", "");
    site.file("net/tools/direct", &format!("#!{}/net/perl/bin/perl -w\n", site.root.display()));
    site.file("net/tools/through", "#!/usr/bin/env -S perl\n");
    for script in ["net/tools/direct", "net/tools/through"] {
        site.check(script, &["+net/tools", "+net/perl"]);
    }
    site.file("net/tools/loop", &format!("#!{}/net/tools/loop\n", site.root.display()));
    site.check("net/tools/loop", &["+net/tools"]);
}

#[test]
fn search_paths_of_the_executable() {
    let site =
        Site::new(&["net/app/deps", "net/other/lib64", "local/lib"]).set("LD_LIBRARY_PATH", "@/net/extra:@/local/lib:");
    fs::create_dir_all(site.root.join("net/extra")).unwrap();
    let program = site.file("net/app/exe/app", "");
    let path = format!("-Wl,-rpath,$ORIGIN/../deps:{0}/net/other/$LIB:{0}/local/lib:/nonexistent", site.root.display());
    let source = site.file("local/main.c", "int main(void) { return 0; }\n");
    assert!(Command::new("cc").arg(source).arg(path).arg("-o").arg(program).status().unwrap().success());
    site.check("net/app/exe/app", &["+net/app/exe", "+net/app/deps", "+net/other/lib64", "+net/extra"]);
}

#[test]
fn variables_of_languages() {
    let site = Site::new(&["net/py", "net/lua/share", "net/jars", "net/r"])
        .set("PYTHONPATH", "@/net/py:@/net/nothing")
        .set("LUA_PATH", "@/net/lua/share/?.lua;./?.lua;;")
        .set("CLASSPATH", "@/net/jars/a.jar")
        .set("R_LIBS", "@/net/r");
    site.file("net/jars/a.jar", "");
    site.check("local/x", &["+net/py", "+net/r", "+net/lua/share", "+net/jars"]);
}

#[test]
fn links_are_known_under_both_names() {
    let site = Site::new(&["net/real"]).set("PYTHONPATH", "@/net/link");
    symlink(site.root.join("net/real"), site.root.join("net/link")).unwrap();
    site.check("local/x", &["+net/link", "+net/real"]);
}

#[test]
fn the_working_directory_is_never_taken() {
    let mut site = Site::new(&["net/env/lib", "net/env/work"]).set("VIRTUAL_ENV", "@/net/env");
    site.file("net/env/bin/python", "");
    site.cwd = site.root.join("net/env/work");
    site.check("net/env/bin/python", &["+net/env", "-net/env/work"]);
    site.cwd = site.root.join("net/env");
    site.check("net/env/bin/python", &["+net/env/bin", "+net/env/lib"]);
    site.cwd = site.root.join("net/env/bin");
    site.check("net/env/bin/python", &["+net/env", "-net/env/bin"]);
    let named = site.discover("net/env/bin/python", &["net/env/bin"], &[]);
    assert!(named.includes(&site.cwd), "{named}");
}

#[test]
fn home_and_scratch_are_never_taken_as_a_whole() {
    let site = Site::new(&["net/home/me/lib", "net/scratch/env"])
        .set("HOME", "@/net/home/me")
        .set("SCRATCH", "@/net/scratch")
        .set("PYTHONPATH", "@/net/home:@/net/home/me:@/net/scratch:@/net/scratch/env");
    site.check("local/x", &["+net/scratch/env"]);
    let scope = site.discover("local/x", &["net/home/me"], &[]);
    assert!(scope.includes(&site.root.join("net/home/me/x")), "{scope}");
    site.file("net/home/me/bin/python3", "");
    site.check("net/home/me/bin/python3", &["+net/home/me/bin", "+net/home/me/lib", "+net/scratch/env"]);
}

#[test]
fn the_operating_system_is_never_taken() {
    let everything_is_shared = |_: &Path| Some("NFS");
    let python_path = |name: &str| (name == "PYTHONPATH").then(|| "/usr/lib:/etc:/:/tmp:/proc:/usr/local".into());
    let world = World {
        cwd: Path::new("/var"),
        variable: &python_path,
        network: &everything_is_shared,
        open: &|path| File::open(path),
    };
    let scope = Scope::discover(Path::new("/usr/bin/env"), Named::default(), world);
    assert_eq!(scope.entries, [], "{scope}");
    let root = [PathBuf::from("/")];
    let scope = Scope::discover(Path::new("/usr/bin/env"), Named { shared: &root, exclude: &[] }, world);
    assert!(scope.includes(Path::new("/usr/lib")) && !scope.includes(Path::new("/proc/self")), "{scope}");
}

#[test]
fn what_is_excluded_stays_out() {
    let site = Site::new(&["net/app/lib/deep", "net/out/lib"])
        .set("LD_LIBRARY_PATH", "@/net/app/lib:@/net/app/lib/deep:@/net/out/lib");
    let scope = site.discover("local/x", &[], &["net/app/lib/deep", "net/out"]);
    assert_eq!(site.entries(&scope), ["-net/app/lib/deep", "+net/app/lib"]);
    let scope = site.discover("local/x", &["net/out/lib"], &["net/out"]);
    assert!(scope.includes(&site.root.join("net/out/lib/x")), "the longer entry decides: {scope}");
    let scope = site.discover("local/x", &["net/out"], &["net/out"]);
    assert!(!scope.includes(&site.root.join("net/out")), "{scope}");
}

/// Only directories can be left out: what is named in vain is reported.
#[test]
fn what_can_not_be_excluded_is_known() {
    let site = Site::new(&["net/app"]);
    std::fs::write(site.root.join("net/app/file"), "").unwrap();
    let scope = site.discover("local/x", &["net/app"], &["net/absent", "net/app/file"]);
    assert_eq!(site.entries(&scope), ["+net/app"]);
    let named = scope.refused.iter().filter(|it| it.reason == EXCLUDE);
    let shown: Vec<String> = named.map(|it| format!("{}: {}", it.reason, it.cause)).collect();
    let directory = site.root.join("net/app").display().to_string();
    let file = format!("--exclude: it is not a directory; name {directory}, which contains it");
    assert_eq!(shown, ["--exclude: there is no such directory; name one that exists", &file]);
}

#[test]
fn temporary_files_stay_out_unless_they_are_named() {
    let site = Site::new(&["net/app/tmp/below", "net/other"]).set("TMPDIR", "@/net/app/tmp");
    let scope = site.discover("local/x", &["net"], &[]);
    assert_eq!(site.entries(&scope), ["+net", "-net/app/tmp"]);
    let scope = site.discover("local/x", &["net", "net/app/tmp/below"], &[]);
    assert!(scope.includes(&site.root.join("net/app/tmp/below/x")), "{scope}");
    for shared in [&["net/app/tmp"][..], &["net/other"]] {
        let scope = site.discover("local/x", shared, &[]);
        assert_eq!(site.entries(&scope), [format!("+{}", shared[0])]);
    }
}

#[test]
fn what_must_not_be_served_can_be_cut_out() {
    let site = Site::new(&["net/store/deep"]);
    let mut scope = site.discover("local/x", &["net", "net/store/deep"], &[]);
    scope.cut_out(&site.root.join("net/store"), "the store");
    assert_eq!(site.entries(&scope), ["+net", "-net/store"]);
}

#[test]
fn a_named_directory_that_does_not_exist_is_reported() {
    let scope = Site::new(&[]).discover("local/x", &["net/nothing"], &[]);
    assert_eq!(scope.entries, []);
    assert!(scope.refused[0].cause.to_string().contains("no such directory"));
}

#[test]
fn a_named_file_and_a_closed_directory_are_reported() {
    let site = Site::new(&[]);
    let file = site.file("net/app/tool", "");
    let cause = |named: &str| site.discover("local/x", &[named], &[]).refused[0].cause.to_string();
    let expected = format!("it is not a directory; name {}, which contains it", file.parent().unwrap().display());
    assert_eq!(cause("net/app/tool"), expected);
    assert_eq!(cause("net/app/tool/below"), "there is no such directory; name one that exists");
    symlink("loop", site.root.join("net/loop")).unwrap();
    assert!(cause("net/loop").starts_with("it can't be reached ("), "{}", cause("net/loop"));
}

#[test]
fn the_scope_is_bounded() {
    let names: Vec<String> = (0..300).map(|n| format!("net/packages/{n}/lib")).collect();
    let site = Site::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let path = names.iter().map(|n| format!("@/{n}")).collect::<Vec<_>>().join(":");
    let scope = site.set("PYTHONPATH", &path).discover("local/x", &[], &[]);
    let refused = scope.refused.iter().filter(|r| r.cause == Cause::TooMany(ENTRIES_MAX)).count();
    assert_eq!((scope.entries.len(), refused), (ENTRIES_MAX, 300 - ENTRIES_MAX));
}
