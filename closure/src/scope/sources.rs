//! Sources of code: the executable, its search paths, its interpreter, the environment.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::read::ReadCache;

use super::world::{World, set};
use crate::elf::dynamic;
use crate::{program, search_path};

/// `#!` lines that are followed, as the kernel does.
const SCRIPTS_MAX: usize = 4;
/// Bytes of a `#!` line or of a `pyvenv.cfg` that are read at most.
const TEXT_BYTES_MAX: u64 = 4096;
/// Interpreters, whose whole prefix is served. Version numbers after the name are ignored.
const INTERPRETERS: [&str; 20] = [
    "python",
    "pypy",
    "ipython",
    "perl",
    "R",
    "Rscript",
    "ruby",
    "lua",
    "luajit",
    "julia",
    "node",
    "tclsh",
    "wish",
    "java",
    "octave",
    "octave-cli",
    "php",
    "guile",
    "racket",
    "erl",
];

/// A directory that code may come from.
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    pub(super) reason: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A directory that is searched.
    Directory,
    /// The top of an installation, with `bin`, `lib` and so on below it.
    Prefix,
    /// A directory that an installation may have; not probed if it would be served anyway.
    Usual,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Directories, or files in them.
    Directories,
    /// Tops of installations.
    Prefixes,
    /// Patterns in Lua's form, with `?` for a module.
    Patterns,
}

/// Variables with sources of code: name, separators, kind of the parts.
const VARIABLES: &[(&str, &str, Holds)] = &[
    ("LD_LIBRARY_PATH", ":;", Holds::Directories),
    ("LD_PRELOAD", ": ", Holds::Directories),
    ("VIRTUAL_ENV", "", Holds::Prefixes),
    ("CONDA_PREFIX", "", Holds::Prefixes),
    ("PYTHONHOME", ":", Holds::Prefixes),
    ("PYTHONPATH", ":", Holds::Directories),
    ("PYTHONUSERBASE", "", Holds::Prefixes),
    ("PERL5LIB", ":", Holds::Directories),
    ("PERLLIB", ":", Holds::Directories),
    ("PERL_LOCAL_LIB_ROOT", ":", Holds::Prefixes),
    ("R_HOME", "", Holds::Prefixes),
    ("R_LIBS", ":", Holds::Directories),
    ("R_LIBS_USER", ":", Holds::Directories),
    ("R_LIBS_SITE", ":", Holds::Directories),
    ("LUA_PATH", ";", Holds::Patterns),
    ("LUA_CPATH", ";", Holds::Patterns),
    ("JULIA_DEPOT_PATH", ":", Holds::Directories),
    ("JULIA_LOAD_PATH", ":", Holds::Directories),
    ("NODE_PATH", ":", Holds::Directories),
    ("TCLLIBPATH", " ", Holds::Directories),
    ("TCL_LIBRARY", "", Holds::Directories),
    ("GEM_HOME", "", Holds::Directories),
    ("GEM_PATH", ":", Holds::Directories),
    ("RUBYLIB", ":", Holds::Directories),
    ("JAVA_HOME", "", Holds::Prefixes),
    ("CLASSPATH", ":", Holds::Directories),
    ("GUILE_LOAD_PATH", ":", Holds::Directories),
    ("OCTAVE_PATH", ":", Holds::Directories),
    ("QT_PLUGIN_PATH", ":", Holds::Directories),
];

/// Returns the variables with sources of code, each with its separators; none if it has one part.
pub fn search_variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    VARIABLES.iter().map(|&(name, separators, _)| (name, separators))
}

/// Returns every directory that code of `program` may be in; they need not exist.
pub fn candidates(program: &Path, world: World<'_>) -> Vec<Candidate> {
    let mut found = Found { world, candidates: Vec::new(), programs: HashSet::new() };
    found.program(program, SCRIPTS_MAX);
    for &(name, separators, holds) in VARIABLES {
        found.variable(name, separators, holds);
    }
    found.candidates
}

struct Found<'a> {
    world: World<'a>,
    candidates: Vec<Candidate>,
    programs: HashSet<PathBuf>,
}

impl Found<'_> {
    fn directory(&mut self, path: impl Into<PathBuf>, reason: impl Into<String>) {
        self.candidates.push(Candidate { path: path.into(), kind: Kind::Directory, reason: reason.into() });
    }

    fn prefix(&mut self, path: impl Into<PathBuf>, reason: impl Into<String>) {
        self.candidates.push(Candidate { path: path.into(), kind: Kind::Prefix, reason: reason.into() });
    }

    /// Adds the directories of a program, of its libraries, and of its interpreter.
    fn program(&mut self, program: &Path, scripts: usize) {
        let canonical = program.canonicalize().unwrap_or_else(|_| program.to_owned());
        let interpreter = is_interpreter(program) || is_interpreter(&canonical);
        for path in [program, &canonical] {
            if self.programs.insert(path.to_owned()) {
                self.installation(path, interpreter);
            }
        }
        self.python_environment(program);
        let Ok(mut file) = (self.world.open)(&canonical) else { return };
        match script_interpreter(&mut file) {
            Some(arguments) if scripts > 0 => self.script(&arguments, scripts),
            Some(_) => {}
            None => self.search_paths(&canonical, file),
        }
    }

    /// Adds the directory of an executable, and its installation.
    fn installation(&mut self, program: &Path, interpreter: bool) {
        let Some(directory) = program.parent() else { return };
        let shown = program.display();
        self.directory(directory, format!("directory of {shown}"));
        let Some(top) = directory.parent().filter(|_| directory.ends_with("bin")) else { return };
        if interpreter {
            self.prefix(top, format!("prefix of {shown}"));
        } else {
            for name in ["lib", "lib64", "libexec", "share"] {
                let reason = format!("{name} beside the bin of {shown}");
                self.candidates.push(Candidate { path: top.join(name), kind: Kind::Usual, reason });
            }
        }
    }

    /// Adds the directories of Python's `site`: the base of a virtual environment, and the user's packages.
    fn python_environment(&mut self, program: &Path) {
        if !base_name(program).is_some_and(|name| name == "python" || name == "pypy") {
            return;
        }
        if let Some(home) = set(self.world, "HOME").filter(|_| set(self.world, "PYTHONNOUSERSITE").is_none()) {
            self.directory(Path::new(&home).join(".local/lib"), "packages that the user installed for Python");
        }
        let configuration = program.ancestors().nth(2).map(|top| top.join("pyvenv.cfg"));
        let Some((configuration, text)) =
            configuration.and_then(|c| Some((c.clone(), read_text((self.world.open)(&c).ok()?)?)))
        else {
            return;
        };
        let home = text.lines().filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "home");
        if let Some((_, home)) = home {
            let (home, reason) = (Path::new(home.trim()), format!("home in {}", configuration.display()));
            self.directory(home, reason.clone());
            if let Some(top) = home.parent().filter(|_| home.ends_with("bin")) {
                self.prefix(top, format!("prefix of the {reason}"));
            }
        }
    }

    /// Adds the interpreter of a `#!` line; `env` is followed.
    fn script(&mut self, arguments: &[OsString], scripts: usize) {
        let Some(interpreter) = arguments.first() else { return };
        let program = program::behind_env(arguments).unwrap_or(interpreter);
        let path = (self.world.variable)("PATH");
        if let Ok(program) = program::find(program, path.as_deref(), self.world.cwd) {
            self.program(&program, scripts - 1);
        }
    }

    /// Adds RPATH and RUNPATH.
    fn search_paths(&mut self, program: &Path, file: File) {
        let cache = ReadCache::new(file);
        let Some(dynamic) = dynamic::read(&cache) else { return };
        let origin = program.parent().unwrap_or(Path::new("/"));
        for (kind, directories) in [("RPATH", &dynamic.rpath), ("RUNPATH", &dynamic.runpath)] {
            for directory in directories.iter().flat_map(|d| search_path::expand(d, origin)) {
                self.directory(self.world.cwd.join(directory), format!("{kind} of {}", program.display()));
            }
        }
    }

    fn variable(&mut self, name: &str, separators: &str, holds: Holds) {
        let Some(value) = set(self.world, name) else { return };
        let parts = value.as_bytes().split(|b| separators.as_bytes().contains(b));
        for part in parts.filter(|p| !p.is_empty()) {
            let part = if holds == Holds::Patterns { part.split(|&b| b == b'?').next().unwrap_or(part) } else { part };
            let path = self.world.cwd.join(OsStr::from_bytes(part));
            match holds {
                Holds::Prefixes => self.prefix(path, format!("prefix in {name}")),
                Holds::Patterns if !part.ends_with(b"/") => {}
                Holds::Directories if path.is_file() || path.ends_with("*") => {
                    self.directory(path.parent().unwrap_or(&path), name);
                }
                _ => self.directory(path, name),
            }
        }
    }
}

/// Returns the arguments of the `#!` line at the start of a file.
fn script_interpreter(file: &mut File) -> Option<Vec<OsString>> {
    let mut start = Vec::new();
    file.take(TEXT_BYTES_MAX).read_to_end(&mut start).ok()?;
    program::script_arguments(&start)
}

fn read_text(file: File) -> Option<String> {
    let mut text = Vec::new();
    file.take(TEXT_BYTES_MAX).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn is_interpreter(program: &Path) -> bool {
    base_name(program).is_some_and(|name| INTERPRETERS.contains(&&*name))
}

/// Returns a program's name without a version: `python` of `python3.11`.
fn base_name(program: &Path) -> Option<String> {
    let name = program.file_name()?.to_str()?;
    Some(name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-').to_owned())
}
