use super::*;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

/// The files themselves.
struct SourceFiles;

impl Files for SourceFiles {
    fn names(&mut self, directory: &Path) -> Names {
        match fs::read_dir(directory) {
            Ok(names) => Names::Listed(Rc::new(names.flatten().map(|name| name.file_name()).collect())),
            Err(_) => Names::Absent,
        }
    }

    fn open(&mut self, path: &Path, _bytes: Bytes) -> io::Result<Found> {
        Ok(Found { file: File::open(path)?, canonical: path.canonicalize()? })
    }

    fn is_there(&mut self, path: &Path) -> bool {
        path.exists()
    }

    fn soon(&mut self, _path: &Path) {}
}

/// The same, with directories whose names are unknown.
struct Unlisted;

impl Files for Unlisted {
    fn names(&mut self, directory: &Path) -> Names {
        if directory.is_dir() { Names::Unlisted } else { Names::Absent }
    }

    fn open(&mut self, path: &Path, bytes: Bytes) -> io::Result<Found> {
        SourceFiles.open(path, bytes)
    }

    fn is_there(&mut self, path: &Path) -> bool {
        path.exists()
    }

    fn soon(&mut self, _path: &Path) {}
}

fn environment(variables: &[(&str, String)]) -> Environment {
    let value = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value));
    Environment {
        cwd: std::env::current_dir().unwrap(),
        path: std::env::var_os("PATH"),
        library_path: value("LD_LIBRARY_PATH"),
        preload: value("LD_PRELOAD"),
        tunables: None,
    }
}

/// Returns the loader's own trace of a file: the libraries' paths, and names that it does not find. `None` if
/// it refuses the file.
fn traced(loader: &Path, file: &Path, variables: &[(&str, String)]) -> Option<(BTreeSet<PathBuf>, BTreeSet<OsString>)> {
    let mut command = Command::new(loader);
    command.arg(file).env_remove("LD_LIBRARY_PATH").env("LD_TRACE_LOADED_OBJECTS", "1");
    let output = command.envs(variables.iter().cloned()).output().unwrap();
    let (mut paths, mut absent) = (BTreeSet::new(), BTreeSet::new());
    let text = String::from_utf8(output.stdout).unwrap();
    for line in text.lines().map(str::trim).filter(|line| !line.contains("linux-vdso")) {
        match line.split_once(" => ") {
            Some((name, "not found")) => drop(absent.insert(OsString::from(name))),
            Some((_, found)) => drop(paths.insert(PathBuf::from(found.rsplit_once(" (0x")?.0))),
            None => drop(paths.insert(PathBuf::from(line.rsplit_once(" (0x")?.0))),
        }
    }
    output.status.success().then_some((paths, absent))
}

/// Finds the needs of an executable, or of a library as if it were one.
fn found(files: &mut impl Files, loader: &Path, file: &Path, variables: &[(&str, String)]) -> Needs {
    let environment = environment(variables);
    let mut analysis = Analysis { environment: &environment, files, needs: Needs::default(), names: HashMap::new() };
    let main = SourceFiles.open(file, Bytes::Whole).unwrap();
    let dynamic = dynamic::read(&ReadCache::new(&main.file)).unwrap();
    let interpreter = Some(loader.as_os_str().as_bytes().to_vec());
    analysis.libraries(&main, &Dynamic { interpreter, ..dynamic });
    analysis.needs
}

/// Returns the loader of this test's process.
fn own_loader() -> PathBuf {
    let own = dynamic::read(&*fs::read("/proc/self/exe").unwrap()).unwrap();
    PathBuf::from(OsString::from_vec(own.interpreter.unwrap()))
}

/// Compares with the loader; false if that refuses the file.
fn check(file: &Path, variables: &[(&str, String)]) -> bool {
    let loader = own_loader();
    let Some((mut paths, absent)) = traced(&loader, file, variables) else { return false };
    paths.insert(loader.clone());
    for needs in [found(&mut SourceFiles, &loader, file, variables), found(&mut Unlisted, &loader, file, variables)] {
        let ours: BTreeSet<PathBuf> = needs.files.iter().map(|(path, _)| path.clone()).collect();
        assert_eq!(ours, paths, "{} with {variables:?}; ours left, the loader's right", file.display());
        assert_eq!(needs.absent.into_iter().collect::<BTreeSet<_>>(), absent, "{}", file.display());
    }
    true
}

/// Returns files below a directory whose names end with `end`, at most `max`, evenly.
fn sample(directory: &Path, end: &str, max: usize) -> Vec<PathBuf> {
    let (mut todo, mut all) = (vec![directory.to_owned()], Vec::new());
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(entry.path()),
                Ok(kind) if kind.is_file() && entry.path().to_string_lossy().ends_with(end) => all.push(entry.path()),
                _ => {}
            }
        }
    }
    all.sort();
    let step = all.len().div_ceil(max).max(1);
    all.into_iter().step_by(step).collect()
}

fn is_dynamic(file: &Path) -> bool {
    let needs = |file: File| dynamic::read(&ReadCache::new(&file)).is_some_and(|dynamic| !dynamic.needed.is_empty());
    let is_native = |file: &File| start(file).and_then(|start| is_native(&start)) == Some(true);
    File::open(file).ok().filter(is_native).is_some_and(needs)
}

#[test]
fn programs_and_modules_of_this_machine() {
    let directories = [("/usr/bin", "", 150), ("/usr/lib", ".so", 60), ("/usr/local/lib", ".so", 40)];
    let files = directories.iter().flat_map(|(directory, end, max)| sample(Path::new(directory), end, *max));
    let dynamic: Vec<PathBuf> = files.filter(|file| is_dynamic(file)).collect();
    let compared = dynamic.iter().filter(|file| check(file, &[])).count();
    assert!(compared > 20 && compared * 10 > dynamic.len() * 9, "{compared} of {} were compared", dynamic.len());
}

/// A tree of libraries, and programs that are linked with them.
struct Site {
    _directory: tempfile::TempDir,
    root: PathBuf,
}

impl Site {
    fn new() -> Site {
        let directory = tempfile::tempdir().unwrap();
        Site { root: directory.path().canonicalize().unwrap(), _directory: directory }
    }

    /// Builds an object; in a flag, `@` stands for the tree.
    fn build(&self, output: &str, flags: &[&str]) -> PathBuf {
        let path = self.root.join(output);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let flags = flags.iter().map(|flag| flag.replace('@', self.root.to_str().unwrap()));
        let mut compiler = Command::new("cc");
        compiler.args(["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", "-o"]).arg(&path).args(flags);
        assert!(compiler.status().unwrap().success(), "{output}");
        path
    }

    fn library(&self, output: &str, flags: &[&str]) -> PathBuf {
        let name = Path::new(output).file_name().unwrap().to_str().unwrap();
        self.build(
            output,
            &[&["-shared", "-fPIC", "-xc", "/dev/null", "-xnone", &format!("-Wl,-soname,{name}")], flags].concat(),
        )
    }

    fn program(&self, output: &str, flags: &[&str]) -> PathBuf {
        let source = self.root.join("main.c");
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        self.build(output, &[&[source.to_str().unwrap()], flags].concat())
    }

    fn copy(&self, from: &str, to: &str) {
        fs::create_dir_all(self.root.join(to).parent().unwrap()).unwrap();
        fs::copy(self.root.join(from), self.root.join(to)).unwrap();
    }

    fn check(&self, program: &Path, variables: &[(&str, &str)]) {
        let root = self.root.to_str().unwrap();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.replace('@', root))).collect();
        assert!(check(program, &variables), "{} is refused", program.display());
    }
}

const RPATH: &str = "-Wl,--disable-new-dtags";

#[test]
fn search_paths_of_every_kind() {
    let site = Site::new();
    for directory in ["a", "b", "c", "d", "e", "lib64/x"] {
        site.library(&format!("{directory}/libbase.so"), &[]);
    }
    // Two levels, so that search paths are inherited or not.
    site.library("mid/libup.so", &["-L@/a", "-lbase"]);
    site.library("mid/librp.so", &["-L@/a", "-lbase", RPATH, "-Wl,-rpath,@/b"]);
    site.library("mid/librun.so", &["-L@/a", "-lbase", "-Wl,-rpath,@/c"]);
    site.library("mid/liborigin.so", &["-L@/a", "-lbase", "-Wl,-rpath,$ORIGIN/../d:${ORIGIN}x:$ORIGINx"]);
    site.library("mid/libempty.so", &["-L@/a", "-lbase", "-Wl,-rpath,"]);
    for (number, middle) in ["up", "rp", "run", "origin", "empty"].iter().enumerate() {
        let need = format!("-l{middle}");
        for (kind, flags) in [("rp", [RPATH, "-Wl,-rpath,@/mid:@/e"]), ("run", ["-Wl,-rpath,@/mid", "-Wl,-rpath,@/e"])]
        {
            let program = site.program(&format!("bin/p{number}{kind}"), &[&["-L@/mid", &need], &flags[..]].concat());
            for library_path in ["", "@/d:", "@/nothing;@/b", "@/$LIB:@/a/", "$ORIGIN/../c", "@/${PLATFORM}:@/b"] {
                site.check(&program, &[("LD_LIBRARY_PATH", library_path)]);
            }
        }
    }
    let program = site.program("bin/nodeflib", &["-L@/a", "-lbase", "-Wl,-z,nodefaultlib", "-Wl,-rpath,@/a"]);
    site.check(&program, &[]);
}

#[test]
fn what_is_not_right_is_passed_over() {
    let site = Site::new();
    site.library("right/libx.so", &[]);
    site.library("right/liby.so", &["-L@/right", "-lx"]);
    // Libraries of another machine, and of another class.
    for (directory, at, value) in [("machine", 18, 183), ("class", 4, 1)] {
        site.copy("right/libx.so", &format!("{directory}/libx.so"));
        let mut bytes = fs::read(site.root.join("right/libx.so")).unwrap();
        bytes[at] = value;
        fs::write(site.root.join(format!("{directory}/libx.so")), bytes).unwrap();
    }
    fs::create_dir_all(site.root.join("dangling")).unwrap();
    symlink("nowhere", site.root.join("dangling/libx.so")).unwrap();
    let program = site.program("bin/app", &["-L@/right", "-lx", "-ly", "-Wl,-rpath-link,@/right"]);
    for library_path in ["@/machine:@/class:@/dangling:@/right", "@/right:@/machine", "@/machine", "@/bin/app:@/right"]
    {
        site.check(&program, &[("LD_LIBRARY_PATH", library_path)]);
    }
}

#[test]
fn one_object_under_several_names() {
    let site = Site::new();
    site.library("a/libx.so", &[]);
    fs::create_dir_all(site.root.join("b")).unwrap();
    symlink("../a/libx.so", site.root.join("b/libz.so")).unwrap();
    fs::hard_link(site.root.join("a/libx.so"), site.root.join("b/libx.so")).unwrap();
    site.library("a/liby.so", &["@/a/libx.so", "-Wl,-rpath,@/b"]);
    let program = site.program("bin/app", &["-L@/a", "-ly", "-lx", "-Wl,-rpath,@/a"]);
    site.check(&program, &[]);
    site.check(&program, &[("LD_PRELOAD", "@/b/libz.so libx.so nothing.so")]);
    // A name with a slash.
    site.build("a/noname.so", &["-shared", "-fPIC", "-xc", "/dev/null"]);
    let program = site.program("bin/slash", &["@/a/noname.so"]);
    site.check(&program, &[]);
}

#[test]
fn capabilities_of_the_hardware() {
    let site = Site::new();
    let loader = Loader::query(&File::open(own_loader()).unwrap(), None);
    site.library("lib/libx.so", &[]);
    let program = site.program("bin/app", &["-L@/lib", "-lx", "-Wl,-rpath,@/lib"]);
    site.check(&program, &[]);
    // Each precedes those that were there: the last is the best.
    for subdirectory in loader.subdirectories.iter().rev().chain([&"glibc-hwcaps/nonsense".into()]) {
        site.copy("lib/libx.so", &format!("lib/{}/libx.so", subdirectory.display()));
        site.check(&program, &[]);
    }
}

#[test]
fn scripts_need_what_interprets_them() {
    let site = Site::new();
    site.library("lib/libx.so", &[]);
    let interpreter = site.program("bin/interpreter", &["-L@/lib", "-lx", "-Wl,-rpath,@/lib"]);
    let bin = interpreter.parent().unwrap().to_owned();
    let environment = Environment { path: Some(bin.into()), cwd: site.root.clone(), ..Environment::default() };
    for line in [interpreter.display().to_string(), "bin/interpreter -x".into(), "/usr/bin/env -S interpreter".into()] {
        let script = site.root.join("script");
        fs::write(&script, format!("#!{line}\n")).unwrap();
        let files = needs(&script, &environment, &mut SourceFiles).files;
        assert_eq!(files[0], (script, Bytes::Whole));
        for (path, bytes) in [("bin/interpreter", Bytes::Whole), ("lib/libx.so", Bytes::Loadable)] {
            assert!(files.contains(&(site.root.join(path), bytes)), "{line}: {files:?}");
        }
    }
    let itself = site.root.join("itself");
    fs::write(&itself, format!("#!{}\n", itself.display())).unwrap();
    assert_eq!(needs(&itself, &environment, &mut SourceFiles).files, [(itself, Bytes::Whole)]);
    assert_eq!(needs(Path::new("/nonexistent"), &environment, &mut SourceFiles), Needs::default());
}

#[test]
fn the_order_is_the_loaders() {
    let site = Site::new();
    site.build("lib/helper.so", &["-shared", "-fPIC", "-xc", "/dev/null"]);
    for leaf in ["one", "two", "three"] {
        site.library(&format!("lib/lib{leaf}.so"), &[]);
    }
    site.library("lib/libleft.so", &["-L@/lib", "-lthree", "-Wl,-rpath,@/lib", "-Wl,--auxiliary,$ORIGIN/helper.so"]);
    let program = site.program("bin/app", &["-L@/lib", "-lleft", "-lone", "-ltwo", "-Wl,-rpath,@/lib"]);
    let needs = found(&mut SourceFiles, &own_loader(), &program, &[]);
    let names: Vec<_> =
        needs.files.iter().skip(1).map(|(path, _)| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["libleft.so", "libone.so", "libtwo.so", "libc.so.6", "libthree.so", "helper.so"]);
    assert!(needs.directories.contains(&site.root.join("lib")), "{needs:?}");
}
