//! Which runs are runs of the same program.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use headwater_closure::scope::Scope;
use headwater_daemon::Kinds;

use crate::via::enters_container;

/// Programs whose first file among the arguments is the program in truth.
const INTERPRETERS: [&str; 17] = [
    "R", "Rscript", "bash", "dash", "guile", "java", "julia", "ksh", "lua", "node", "octave", "perl", "php", "pypy",
    "python", "ruby", "sh",
];
/// Endings of images' names, beside directories.
const IMAGES: [&str; 5] = ["img", "sif", "simg", "sqfs", "squashfs"];
/// Options of interpreters that name the program in another way, as their value.
const NAMING: [&str; 6] = ["-m", "-c", "-e", "-jar", "-cp", "-classpath"];
/// Variables on which the files depend that a program finds.
const VARIABLES: [&str; 15] = [
    "CLASSPATH",
    "CONDA_PREFIX",
    "JULIA_DEPOT_PATH",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LUA_PATH",
    "MODULEPATH",
    "NODE_PATH",
    "PATH",
    "PERL5LIB",
    "PYTHONHOME",
    "PYTHONPATH",
    "R_LIBS",
    "VIRTUAL_ENV",
];
/// Bytes of a title.
const TITLE_BYTES_MAX: usize = 200;

/// The identity of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The name of its closure's file.
    pub name: String,
    /// Its command, for people.
    pub title: String,
}

/// Returns the identity of a program that is found as `program`, in this process's environment and directory, and
/// whose files of these kinds are served.
pub fn of(command: &[OsString], program: &Path, scope: &Scope, kinds: Kinds) -> Key {
    let cwd = env::current_dir().unwrap_or_default();
    let is_file = |word: &OsStr| cwd.join(word).is_file();
    let words =
        if enters_container(program) { words_with_image(command, &is_file) } else { words(command, program, &is_file) };
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    add(program.canonicalize().as_deref().unwrap_or(program).as_os_str().as_bytes());
    for word in &words {
        // A file, or an image's directory, is named by where it lies.
        let path = cwd.join(word);
        add(if path.exists() { path.as_os_str().as_bytes() } else { word.as_bytes() });
    }
    for name in VARIABLES {
        add(name.as_bytes());
        add(env::var_os(name).unwrap_or_default().as_bytes());
    }
    for (is_included, path) in scope.pairs() {
        add(&[u8::from(is_included)]);
        add(path.as_bytes());
    }
    if !kinds.is_all() {
        add(&[kinds.bits()]);
    }
    let hash = hasher.finalize().to_hex();
    let base = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let base: String = base.chars().filter(|c| c.is_ascii_alphanumeric() || "+-._".contains(*c)).take(40).collect();
    let mut title = [program.as_os_str()].into_iter().chain(words).collect::<Vec<_>>().join(OsStr::new(" "));
    if title.len() > TITLE_BYTES_MAX {
        title = OsStr::from_bytes(&title.as_bytes()[..TITLE_BYTES_MAX]).to_owned();
    }
    Key { name: format!("{base}-{}.closure", &hash[..16]), title: title.to_string_lossy().into_owned() }
}

/// Returns the arguments that name the program that an interpreter runs: all up to the first file, or the value of an
/// option that names it. None for other programs.
fn words<'a>(command: &'a [OsString], program: &Path, is_file: &dyn Fn(&OsStr) -> bool) -> Vec<&'a OsStr> {
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    if !INTERPRETERS.contains(&stem) {
        return Vec::new();
    }
    let mut words = Vec::new();
    let mut is_last = false;
    for word in command.iter().skip(1) {
        words.push(word.as_os_str());
        if is_last || is_file(word) {
            return words;
        }
        is_last = word.to_str().is_some_and(|word| NAMING.contains(&word));
    }
    words
}

/// Returns the arguments that name a container's image and its program: all up to the first file that is no image. All
/// of them if the program's files are seen only inside.
fn words_with_image<'a>(command: &'a [OsString], is_file: &dyn Fn(&OsStr) -> bool) -> Vec<&'a OsStr> {
    let is_image =
        |word: &OsStr| Path::new(word).extension().is_some_and(|end| IMAGES.iter().any(|image| end == *image));
    let words = || command.iter().skip(1).map(OsString::as_os_str);
    let named = words().position(|word| is_file(word) && !is_image(word)).map_or(usize::MAX, |last| last + 1);
    words().take(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreters_program_is_its_script() {
        for (command, program, expected) in [
            ("python3 -X dev train.py --lr 1", "/usr/bin/python3.12", "-X dev train.py"),
            ("python -m torch.distributed.run x.py", "/env/bin/python", "-m torch.distributed.run"),
            ("python3 -c pass y.py", "/usr/bin/python3", "-c pass"),
            ("bash run.sh data.txt", "/bin/bash", "run.sh"),
            ("app run.sh", "/sw/bin/app", ""),
            ("python3", "/usr/bin/python3", ""),
        ] {
            let command: Vec<OsString> = command.split(' ').map(OsString::from).collect();
            let is_file = |word: &OsStr| {
                Path::new(word).extension().is_some_and(|end| end == "py" || end == "sh" || end == "txt")
            };
            assert_eq!(words(&command, Path::new(program), &is_file).join(OsStr::new(" ")), expected);
        }
    }

    #[test]
    fn a_containers_program_has_an_image() {
        for (command, expected) in [
            ("apptainer exec -B /sw a.sif python3 train.py --lr 1", "exec -B /sw a.sif python3 train.py"),
            ("ch-run images/a -- python3 -c pass x", "images/a -- python3 -c pass x"),
            ("bwrap --bind images/a / run.py 1", "--bind images/a / run.py"),
        ] {
            let command: Vec<OsString> = command.split(' ').map(OsString::from).collect();
            let is_file = |word: &OsStr| Path::new(word).extension().is_some();
            assert_eq!(words_with_image(&command, &is_file).join(OsStr::new(" ")), expected);
        }
    }

    #[test]
    fn keys_are_names_of_files() {
        let command: Vec<OsString> = ["a b/c", "x"].map(OsString::from).into();
        let of = |command: &[OsString], name, kinds| super::of(command, Path::new(name), &Scope::default(), kinds);
        let key = of(&command, "/nonexistent/a b/ü+c", Kinds::all());
        assert!(key.name.starts_with("+c-") && key.name.ends_with(".closure") && key.name.len() == 27, "{key:?}");
        assert_eq!(key.title, "/nonexistent/a b/ü+c");
        assert_eq!(key, of(&command[..1], "/nonexistent/a b/ü+c", Kinds::all()));
        assert_ne!(key, of(&command, "/nonexistent/+c", Kinds::all()));
        assert_ne!(key, of(&command, "/nonexistent/a b/ü+c", Kinds::PYTHON));
    }
}
