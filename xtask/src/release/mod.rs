//! `target/releases`: what sites install, for each supported architecture.

mod components;
mod packages;
mod reproduce;
mod sysroot;
mod trials;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use object::read::elf::{ElfFile64, FileHeader};
use object::{LittleEndian, Object, ObjectSymbol, SymbolIndex};

pub use self::reproduce::check as check_reproducible;
pub use self::trials::run as test;

use self::packages::Names;
use crate::shell::Shell;
use crate::system::{Architecture, System};
use crate::{dist, files, headwater};

/// The newest version of a symbol of glibc that a released file may need.
const GLIBC_MAX: (u32, u32) = (2, 28);

/// Builds the releases of these architectures.
pub fn run(shell: &Shell, architectures: &[Architecture]) -> Result<()> {
    for architecture in architectures {
        let dist = build_archive(shell, *architecture)?;
        packages::build(&released(shell, *architecture), *architecture, &dist)?;
        for path in Names::new(shell, *architecture).all() {
            println!("{} is ready", path.strip_prefix(&shell.root).unwrap_or(&path).display());
        }
    }
    Ok(())
}

/// Builds the archive alone. Returns the directory with the same files.
pub fn build_archive(shell: &Shell, architecture: Architecture) -> Result<PathBuf> {
    let name = architecture.name();
    let released = released(shell, architecture);
    shell.step(&format!("C library and headers for {name}"), || sysroot::install(shell, architecture))?;
    let dist = released.built("dist");
    if dist.exists() {
        std::fs::remove_dir_all(&dist)?;
    }
    dist::run(&released)?;
    shell.step("symbols of the C library", || check_symbols(&dist))?;
    shell.step("names of this machine's directories", || check_names(&released, &dist))?;
    shell.step("parts and their licences", || {
        components::write(shell, architecture, &dist.join("share/doc/headwater"))
    })?;
    shell.step("archive", || pack(&released, &Names::new(shell, architecture), &dist))?;
    Ok(dist)
}

fn released(shell: &Shell, architecture: Architecture) -> Shell {
    Shell { system: System::Released(architecture), ..shell.clone() }
}

/// Packs a directory such that the same files are the same bytes.
fn pack(shell: &Shell, names: &Names, dist: &Path) -> Result<()> {
    let mut tar = shell.command("tar");
    tar.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX", "--xz"]);
    tar.arg(format!("--transform=s,^\\.,{},", names.stem()))
        .arg("-cf")
        .arg(names.archive())
        .arg("-C")
        .arg(dist)
        .arg(".");
    shell.run(&mut tar).map(drop)
}

/// The path of an architecture's archive.
pub fn archive(shell: &Shell, architecture: Architecture) -> PathBuf {
    Names::new(shell, architecture).archive()
}

/// Checks that no file in the directory needs a newer C library than those that are supported.
fn check_symbols(directory: &Path) -> Result<()> {
    let mut newer = Vec::new();
    for path in files::all(directory)? {
        let data = std::fs::read(&path)?;
        if data.starts_with(b"\x7fELF") {
            let found = newer_symbols(&data).with_context(|| path.display().to_string())?;
            newer.extend(found.into_iter().map(|symbol| format!("{} needs {symbol}", path.display())));
        }
    }
    let (major, minor) = GLIBC_MAX;
    ensure!(newer.is_empty(), "glibc {major}.{minor} lacks:\n{}", newer.join("\n"));
    Ok(())
}

/// Checks that no file in the directory reveals where it was built.
fn check_names(shell: &Shell, directory: &Path) -> Result<()> {
    let places = headwater::renamed(shell)?.into_iter().map(|(place, _)| place.display().to_string());
    let places = places.collect::<Vec<_>>();
    let mut found = Vec::new();
    for path in files::all(directory)? {
        let data = std::fs::read(&path)?;
        let has = |place: &&String| data.windows(place.len()).any(|window| window == place.as_bytes());
        found.extend(places.iter().filter(has).map(|place| format!("{} contains {place}", path.display())));
    }
    ensure!(found.is_empty(), "a release may not depend on where it is built:\n{}", found.join("\n"));
    Ok(())
}

/// The symbols of an ELF file that are of a version of glibc newer than the oldest supported one.
fn newer_symbols(data: &[u8]) -> Result<Vec<String>> {
    let file = ElfFile64::<LittleEndian>::parse(data)?;
    let (endian, sections) = (file.endian(), file.elf_header().sections(file.endian(), data)?);
    let Some(versions) = sections.versions(endian, data)? else { return Ok(Vec::new()) };
    let mut newer = Vec::new();
    for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_undefined) {
        let SymbolIndex(index) = symbol.index();
        let index = versions.version_index(endian, SymbolIndex(index));
        let Some(version) = versions.version(index)? else { continue };
        let version = String::from_utf8_lossy(version.name());
        if let Some(number) = version.strip_prefix("GLIBC_")
            && glibc(number).with_context(|| format!("version {version}"))? > GLIBC_MAX
        {
            newer.push(format!("{}@{version}", symbol.name()?));
        }
    }
    Ok(newer)
}

/// The numbers of `2.28`, or `2.2.5` without its last.
fn glibc(text: &str) -> Result<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => bail!("`{text}` is no version of glibc"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(glibc("2.2.5").unwrap() < GLIBC_MAX && glibc("2.28").unwrap() == GLIBC_MAX);
        assert!(glibc("2.34").unwrap() > GLIBC_MAX && glibc("3.0").unwrap() > GLIBC_MAX);
        assert!(glibc("PRIVATE").is_err());
    }

    #[test]
    fn an_installation_names_its_prefix() {
        let shell = Shell::new(false);
        let directory = tempfile::tempdir().unwrap();
        let from = directory.path().join("from");
        for (name, text) in [
            ("bin/headwater", "a program"),
            ("include/a.h", ""),
            ("lib/systemd/system/a.service", "ExecStart=/usr/bin/headwater serve\n"),
            (
                "share/headwater/a.conf",
                "# (default: /usr/bin/headwater)\noptional /usr/lib/slurm/a.so x=/usr/bin/headwater\n",
            ),
        ] {
            std::fs::create_dir_all(from.join(name).parent().unwrap()).unwrap();
            std::fs::write(from.join(name), text).unwrap();
        }
        files::copy_if_changed(&shell.path("packaging/install.sh"), &from.join("install.sh")).unwrap();
        let install = |prefix: &Path| {
            let mut script = shell.command("sh");
            let finished = shell.capture(script.arg(from.join("install.sh")).arg("--prefix").arg(prefix)).unwrap();
            (finished.status.code(), finished.output)
        };
        for (name, named) in [("a-1.0@b", None), ("with blank", Some("/usr"))] {
            let prefix = directory.path().join(name);
            let named = named.map_or(prefix.display().to_string(), str::to_owned);
            let (status, output) = install(&prefix);
            assert_eq!((status, output.contains("note: ")), (Some(0), named == "/usr"), "{output}");
            let text = |name: &str| std::fs::read_to_string(prefix.join(name)).unwrap();
            assert_eq!(text("bin/headwater"), "a program");
            assert_eq!(text("lib/systemd/system/a.service"), format!("ExecStart={named}/bin/headwater serve\n"));
            let line = format!("optional {named}/lib/slurm/a.so x={named}/bin/headwater\n");
            assert_eq!(text("share/headwater/a.conf"), format!("# (default: /usr/bin/headwater)\n{line}"));
            assert_eq!(files::all(&prefix).unwrap().len(), 4, "nothing else is left");
        }
        assert_eq!(install(&from).0, Some(2));
        assert_eq!(install(Path::new("/proc/no")).0, Some(1));
    }

    #[test]
    fn names_of_directories_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let shell = Shell::new(false);
        std::fs::write(directory.path().join("a"), b"\0/usr/src/headwater/a.c\0").unwrap();
        check_names(&shell, directory.path()).unwrap();
        std::fs::write(directory.path().join("b"), format!("\0{}/a.c", shell.root.display())).unwrap();
        let error = check_names(&shell, directory.path()).unwrap_err().to_string();
        assert!(error.contains("/b contains ") && !error.contains("/a contains"), "{error}");
    }

    #[test]
    fn newer_symbols_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let (source, library) = (directory.path().join("a.c"), directory.path().join("a.so"));
        let text = "int close_range(unsigned a, unsigned b, int c); int puts(const char *);\n\
            int f(void) { puts(\"a\"); return close_range(3, 4, 0); }\n";
        std::fs::write(&source, text).unwrap();
        let mut command = Shell::new(false).command("gcc");
        command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        assert!(command.status().unwrap().success());
        assert_eq!(newer_symbols(&std::fs::read(&library).unwrap()).unwrap(), ["close_range@GLIBC_2.34"]);
        let error = check_symbols(directory.path()).unwrap_err().to_string();
        assert!(error.contains("glibc 2.28 lacks") && error.contains("a.so needs close_range@GLIBC_2.34"), "{error}");
    }
}
