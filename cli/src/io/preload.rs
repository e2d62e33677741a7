//! Loads the I/O library into processes: into which ones, and by which variables.
//!
//! A job's ranks cooperate in the library, so either all have it, or none relies on the others.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use headwater_closure::elf::dynamic;
use headwater_closure::program;

use super::options::{InnerIoOptions, IoMode, IoOptions};
use super::trial;
use crate::installed;
use crate::message::log;
use crate::rendezvous::NodeIo;
use crate::via::Program;

/// The library's file name.
pub const MPIIO_LIBRARY: &str = "libheadwater-mpiio.so";
/// The folder of its variants for each MPI, and the begin and end of their names.
pub const VARIANTS: (&str, &str, &str) = ("headwater", "mpiio-", ".so");
const PRELOAD: &str = "LD_PRELOAD";
/// The beginnings of the names of sanitizers' libraries, which must be the first.
const SANITIZERS: [&str; 5] = ["libasan.so", "libtsan.so", "libhwasan.so", "libclang_rt.asan", "libclang_rt.tsan"];

/// Variables of a process.
pub type Environment = BTreeMap<OsString, OsString>;

/// Returns the options for these programs of one launch. If the library can't be loaded, warns and turns it off.
pub fn settle(options: &IoOptions, programs: &[OsString], known: Option<&Program>) -> IoOptions {
    if !options.is_wanted() {
        return options.clone();
    }
    match obstacle(programs, known) {
        None => options.clone(),
        Some(why) => {
            log(format_args!("warning: {why}. Its I/O stays as it is"));
            IoOptions { io: Some(IoMode::Off), ..IoOptions::default() }
        }
    }
}

/// Returns why the library is not loaded into these programs, if so.
fn obstacle(programs: &[OsString], known: Option<&Program>) -> Option<String> {
    if let Some((first, other)) = programs.first().zip(programs.iter().find(|name| **name != programs[0])) {
        let (first, other) = (first.display(), other.display());
        return Some(format!("--io is for launches of one program, and this one has {first} and {other}"));
    }
    if let Some(why) = known.and_then(Program::not_audited) {
        let step =
            if why.ends_with("statically linked") { " (link it dynamically, with MPI's shared library)" } else { "" };
        return Some(format!("{why}, so no library can be loaded into it for --io{step}"));
    }
    if let Some((first, sanitizer)) = programs.first().and_then(|name| Some((name, sanitizer_of(name)?))) {
        let first = first.display();
        return Some(format!("{first} needs {sanitizer}, before which no library may be loaded for --io"));
    }
    match installed::find(MPIIO_LIBRARY) {
        Ok(library) => trial::preload(&library).err(),
        Err(error) => Some(format!("{error:#}")),
    }
}

/// Returns the sanitizer's library that a program is linked with, if any.
fn sanitizer_of(name: &OsStr) -> Option<String> {
    let needed = dynamic::of(&File::open(find(name)?).ok()?)?.needed;
    let mut names = needed.iter().map(|name| String::from_utf8_lossy(name).into_owned());
    names.find(|name| SANITIZERS.iter().any(|begin| name.starts_with(begin)))
}

/// Sets the variables of a process with the library, or without it on an error. The node's options win over `options`.
pub fn add(options: &InnerIoOptions, node: Option<&NodeIo>, variables: &mut Environment) -> Result<(), String> {
    let own =
        || IoOptions { io: options.io, io_profile: options.io_profile.clone(), io_report: options.io_report.clone() };
    let wanted = node.map_or_else(own, |node| node.options.clone());
    let Some(mode) = wanted.io else { return Ok(()) };
    set(variables, "HEADWATER_IO", mode.name().as_ref());
    if mode == IoMode::Off {
        return Ok(());
    }
    // A node agent has tried its copy.
    let installed = || {
        let library = installed::find(MPIIO_LIBRARY).map_err(|error| format!("{error:#}"))?;
        trial::preload(&library).map(|()| library)
    };
    let library = node.map_or_else(installed, |node| Ok(node.library.clone()));
    let library = library.inspect_err(|_| set(variables, "HEADWATER_IO", IoMode::Off.name().as_ref()))?;
    load(&library, variables);
    if options.io_everywhere || node.is_some_and(|node| node.is_everywhere) {
        set(variables, "HEADWATER_IO_EVERYWHERE", "yes".as_ref());
    }
    for (name, path) in [("HEADWATER_IO_PROFILE", &wanted.io_profile), ("HEADWATER_IO_REPORT", &wanted.io_report)] {
        path.iter().for_each(|path| set(variables, name, path.as_os_str()));
    }
    Ok(())
}

/// Copies the library and its variants to `directory`, so that no process opens them on a shared file system.
///
/// # Errors
/// The library is not installed, this node can't load it, or the directory has no room.
pub fn copy(directory: &Path) -> anyhow::Result<PathBuf> {
    let (library, variants) = installed()?;
    let copy = directory.join("mpiio");
    let (folder, begin, end) = VARIANTS;
    let mut private = DirBuilder::new();
    private.mode(0o700).create(&copy)?;
    private.create(copy.join(folder))?;
    for variant in variants {
        let part = Path::new(folder).join(format!("{begin}{variant}{end}"));
        fs::copy(library.with_file_name(&part), copy.join(part))?;
    }
    let copy = copy.join(MPIIO_LIBRARY);
    fs::copy(library, &copy)?;
    // This node's C library may be older than the front end's.
    trial::preload(&copy).map_err(anyhow::Error::msg)?;
    Ok(copy)
}

/// Returns whether the user has loaded the library already.
fn is_loaded(list: &[u8]) -> bool {
    let mut names = list.split(|byte| b": ".contains(byte)).map(|path| Path::new(OsStr::from_bytes(path)).file_name());
    names.any(|name| name == Some(MPIIO_LIBRARY.as_ref()))
}

/// Appends the library to LD_PRELOAD.
fn load(library: &Path, variables: &mut Environment) {
    let old = variables.get(OsStr::new(PRELOAD)).map_or(&b""[..], |value| value.as_bytes());
    if is_loaded(old) {
        return;
    }
    let between: &[u8] = if old.is_empty() { b"" } else { b":" };
    let value = OsString::from_vec([old, between, library.as_os_str().as_bytes()].concat());
    set(variables, PRELOAD, &value);
}

fn set(variables: &mut Environment, name: &str, value: &OsStr) {
    variables.insert(name.into(), value.to_owned());
}

/// Returns the installed library, and the MPIs with a variant beside it.
///
/// # Errors
/// The library is not installed.
pub fn installed() -> anyhow::Result<(PathBuf, Vec<String>)> {
    let library = installed::find(MPIIO_LIBRARY)?;
    let (folder, begin, end) = VARIANTS;
    let entries = library.with_file_name(folder).read_dir().into_iter().flatten().flatten();
    let name =
        |entry: std::fs::DirEntry| Some(entry.file_name().to_str()?.strip_prefix(begin)?.strip_suffix(end)?.to_owned());
    let mut variants: Vec<String> = entries.filter_map(name).collect();
    variants.sort();
    Ok((library, variants))
}

/// Examines a program that the user names.
pub fn examine(name: &OsStr) -> Option<Program> {
    Some(Program::examine(&find(name)?, false, &|path| File::open(path)))
}

fn find(name: &OsStr) -> Option<PathBuf> {
    program::find(name, env::var_os("PATH").as_deref(), &env::current_dir().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_last_and_once() {
        let check = |old: Option<&str>, expected: &str| {
            let mut variables = Environment::from([("A".into(), "1".into())]);
            variables.extend(old.map(|old| (PRELOAD.into(), old.into())));
            load(Path::new("/hw/lib/libheadwater-mpiio.so"), &mut variables);
            assert_eq!(variables, [("A".into(), "1".into()), (PRELOAD.into(), expected.into())].into());
        };
        check(None, "/hw/lib/libheadwater-mpiio.so");
        check(Some(""), "/hw/lib/libheadwater-mpiio.so");
        check(Some("/x.so y.so"), "/x.so y.so:/hw/lib/libheadwater-mpiio.so");
        check(Some("/mine/libheadwater-mpiio.so x.so"), "/mine/libheadwater-mpiio.so x.so");
    }

    #[test]
    fn several_programs_and_static_ones_are_left_alone() {
        let names = |names: &[&str]| names.iter().map(OsString::from).collect::<Vec<_>>();
        let why = obstacle(&names(&["a", "a", "b"]), None).unwrap();
        assert!(why.contains("this one has a and b"), "{why}");
        let why = obstacle(&names(&["go", "go"]), Some(&Program::static_named("go"))).unwrap();
        assert!(why.starts_with("go is statically linked"), "{why}");
    }

    #[test]
    fn programs_with_a_sanitizer_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (source, program) = (directory.path().join("a.c"), directory.path().join("a"));
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let link = |path: &Path, flags: &[&OsStr]| {
            let mut compiler = std::process::Command::new("cc");
            compiler.args(["-Wl,--no-as-needed", "-o"]).arg(path).arg(&source).args(flags);
            assert!(compiler.status().unwrap().success(), "{compiler:?}");
        };
        link(&program, &[]);
        assert_eq!(sanitizer_of(program.as_os_str()), None);
        let library = directory.path().join("other.so");
        link(&library, &["-shared".as_ref(), "-fPIC".as_ref(), "-Wl,-soname,libasan.so.8".as_ref()]);
        link(&program, &[library.as_os_str()]);
        let why = obstacle(&[program.as_os_str().to_owned()], None).unwrap();
        assert!(why.contains("a needs libasan.so.8"), "{why}");
    }
}
