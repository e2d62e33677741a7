//! Interpreters of this machine, and programs run by them: once by exec, once from a zygote.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use headwater_tests::harness::Fixture;

/// A directory with programs and a spawner.
pub struct Bench {
    fixture: Fixture,
    spawner: PathBuf,
}

/// A run to be compared: `options` of the interpreter, its program, and the differences around it.
pub struct Run<'a> {
    pub options: &'a [&'a str],
    pub args: &'a [&'a str],
    pub imports: &'a str,
    pub input: &'a str,
    pub variables: &'a [(&'a str, &'a str)],
    /// Arguments of a shell that runs the spawner as "$@"; empty: none.
    pub shell: &'a str,
    /// How a zygote's process should have been made; empty: this is not checked.
    pub made: &'a str,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Run { options: &[], args: &[], imports: "none", input: "", variables: &[], shell: "", made: "zygote" }
    }
}

impl Bench {
    pub fn new() -> Bench {
        let fixture = Fixture::new("spawn-python");
        let programs = headwater_tests::workspace().join("tests/tests/spawn_python/programs");
        for entry in fs::read_dir(programs).expect("it is in the repository").flatten() {
            let name = entry.file_name().into_string().expect("a plain name");
            fixture.file(&name, fs::read(entry.path()).expect("a file"), 0o644);
        }
        let dist = headwater_tests::prefix();
        let lib = dist.join("lib").display().to_string();
        let include = format!("-I{}", dist.join("include").display());
        let flags = [&include, &format!("-L{lib}"), "-lheadwater-spawn", &format!("-Wl,-rpath,{lib}")];
        let spawner = fixture.build("spawner.c", "spawner", &flags.map(|flag| flag as &str));
        Bench { fixture, spawner }
    }

    /// The directory in which programs run.
    pub fn dir(&self) -> PathBuf {
        self.fixture.shared()
    }

    /// Writes a program.
    pub fn program(&self, name: &str, text: &str) {
        self.fixture.file(name, text, 0o644);
    }

    /// Builds a library that programs load.
    pub fn library(&self, source: &str, name: &str) {
        self.fixture.build(source, name, &["-shared", "-fPIC"]);
    }

    /// Writes a program that is executed by its own name, and returns its path.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        self.fixture.file(name, text, 0o755)
    }

    /// The output of `count` processes in succession, of which the last ends as this does, and how they were made.
    pub fn spawn(&self, how: &str, python: &Path, run: &Run, count: u32) -> (Output, String) {
        let note = self.fixture.outside("made");
        let _ = fs::remove_file(&note);
        let input = self.fixture.outside("input");
        fs::write(&input, run.input).expect("an own directory");
        let mut command = Command::new(if run.shell.is_empty() { self.spawner.as_os_str() } else { "sh".as_ref() });
        if !run.shell.is_empty() {
            command.args(["-c", run.shell, "sh"]).arg(&self.spawner);
        }
        command.arg(how).arg(python).args([run.imports, &count.to_string()]).arg(python).args(run.options);
        command.arg("--").arg(python).args(run.options).args(run.args);
        command.stdin(fs::File::open(&input).expect("just written")).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.current_dir(self.dir()).env_clear().env("PATH", "/usr/bin:/bin").env("PYTHONPATH", self.dir());
        command.env("MADE", &note).env("PYTHONDONTWRITEBYTECODE", "1").env("LANG", "C.UTF-8");
        command.envs(run.variables.iter().copied());
        let output = command.output().expect("the spawner was built");
        (output, fs::read_to_string(&note).unwrap_or_default())
    }

    /// Asserts that a process is the same from a zygote as by exec.
    pub fn compare(&self, python: &Path, run: &Run) {
        let name = format!("{} {:?} {:?} {:?} {}", python.display(), run.options, run.args, run.variables, run.shell);
        let (expected, _) = self.spawn("exec", python, run, 1);
        let (got, made) = self.spawn("zygote", python, run, 1);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for (expected, got) in [(&expected.stdout, &got.stdout), (&expected.stderr, &got.stderr)] {
            assert_eq!(settled(&text(expected)), settled(&text(got)), "{name}\n{}", text(&expected_or(got, expected)));
        }
        let ends = |output: &Output| (output.status.code(), output.status.signal());
        assert_eq!(ends(&expected), ends(&got), "{name}");
        if !run.made.is_empty() {
            assert_eq!(made, format!("{}\n", run.made), "{name}: {}", text(&got.stderr));
        }
    }
}

fn expected_or(got: &[u8], expected: &[u8]) -> Vec<u8> {
    if got.is_empty() { expected.to_vec() } else { got.to_vec() }
}

/// Addresses differ from run to run. Since Python 3.14 a crash shows the frames of C, of which there are others.
fn settled(text: &str) -> Vec<String> {
    let digit = |c: char| !c.is_ascii_hexdigit();
    let line = |line: &str| {
        let mut parts = line.split("0x");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| text + "0x" + part.trim_start_matches(|c| !digit(c)))
    };
    text.lines().filter(|line| !line.starts_with("  Binary file ")).map(line).collect()
}

/// Interpreters of the versions that can be zygotes: Debian's, which has the interpreter inside, and those of pyenv,
/// which have it in a library.
pub fn interpreters() -> Vec<PathBuf> {
    let found = |path: &PathBuf| version(path).is_some_and(|minor| (8..=15).contains(&minor));
    let mut paths = vec![PathBuf::from("/usr/bin/python3"), PathBuf::from("/usr/local/bin/python3")];
    let home = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv")));
    let versions = home.and_then(|home| fs::read_dir(home.join("versions")).ok());
    let mut others: Vec<_> = versions.into_iter().flatten().flatten().map(|e| e.path().join("bin/python3")).collect();
    others.sort();
    paths.extend(others);
    paths.retain(found);
    paths
}

/// N of Python 3.N.
pub fn version(python: &Path) -> Option<u32> {
    let output = Command::new(python).args(["-c", "import sys; print(sys.version_info[1])"]).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}
