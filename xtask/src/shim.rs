//! The audit library: its compilation, and checks of the result. Checks of all C headers.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol, SymbolKind, elf};

use crate::cc::{self, compiler};
use crate::shell::{Shell, display};
use crate::system::Architecture;
use crate::{fabric, files, flux, mpiio, side_by_side, slurm, spawn};

/// What makes code freestanding: it may rely on nothing that a C library or run-time provides.
/// Unwind tables stay, because exceptions and cancellation pass through the wrappers.
const FREESTANDING_FLAGS: &[&str] = &[
    "-O2",
    "-g1",
    "-fPIC",
    "-ffreestanding",
    "-fvisibility=hidden",
    "-fno-stack-protector",
    // Or else memset is compiled into a call of itself.
    "-fno-tree-loop-distribute-patterns",
    "-U_FORTIFY_SOURCE",
];

const LINK_FLAGS: &[&str] = &[
    "-shared",
    "-nostdlib",
    "-nostartfiles",
    "-Wl,-Bsymbolic",
    "-Wl,--no-undefined",
    "-Wl,-z,now",
    "-Wl,-z,relro",
    "-Wl,-z,noexecstack",
    // Two segments instead of four: two system calls fewer in every process.
    "-Wl,-z,noseparate-code",
    "-Wl,--hash-style=gnu",
    "-Wl,--build-id",
];

/// The most stack of a program that one function of the audit library may use. A test measures that of a whole call.
const AUDIT_STACK: &str = "-Wstack-usage=768";

/// The audit library's sources.
pub const AUDIT_SOURCES: &str = "shim/audit";
/// Its tests.
pub const AUDIT_TESTS: &str = "shim/audit/tests";
/// The source of the library that tries what the loader does to audited programs.
const TRIAL: &str = "shim/trial";
const AUDIT_LIBRARY: &str = "libheadwater-audit.so";
/// The function by which the loader detects an audit library, and the prefix of all of its functions.
const AUDIT_ENTRY: &str = "la_version";
const AUDIT_EXPORTS: &str = "la_";

/// Compiles `libheadwater-audit.so` into `directory`, unless nothing has changed, and verifies it. Returns its path.
pub fn build_audit(shell: &Shell, directory: &Path) -> Result<PathBuf> {
    let library = directory.join(AUDIT_LIBRARY);
    std::fs::create_dir_all(directory)?;
    let mut sources = files::with_extensions(&shell.path(AUDIT_SOURCES), &["c"])?;
    sources.retain(|source| !source.starts_with(shell.path(AUDIT_TESTS)));
    ensure!(!sources.is_empty(), "{AUDIT_SOURCES} contains no C files");
    let mut command = compiler(shell);
    if shell.system.architecture()? == Architecture::Aarch64 {
        // The others call functions of the compiler's library.
        command.arg("-mno-outline-atomics");
    }
    command.args(FREESTANDING_FLAGS).arg(AUDIT_STACK).arg(format!("-I{AUDIT_SOURCES}")).args(LINK_FLAGS);
    command.arg(format!("-Wl,--version-script={AUDIT_SOURCES}/export.map"));
    command.arg(format!("-Wl,-soname,{AUDIT_LIBRARY}"));
    command.args(sources.iter().map(|s| s.strip_prefix(&shell.root).unwrap_or(s)));
    let stamp = directory.join("libheadwater-audit.stamp");
    let newest = files::newest(&[shell.path(AUDIT_SOURCES), shell.path("abi/include")])?;
    let built_from = format!("{}\n{newest:?}\n", display(&command, &shell.root));
    let unchanged = library.exists() && std::fs::read_to_string(&stamp).is_ok_and(|old| old == built_from);
    if !unchanged {
        let partial = files::partial(&library);
        shell.run(command.arg("-o").arg(&partial))?;
        let data = std::fs::read(&partial)?;
        verify(&data).with_context(|| format!("{} must load into any process", library.display()))?;
        std::fs::rename(partial, &library)?;
        std::fs::write(stamp, built_from)?;
    }
    Ok(library)
}

/// Compiles the library that tries the loader into `directory`, unless nothing has changed. Returns its path.
pub fn build_trial(shell: &Shell, directory: &Path) -> Result<PathBuf> {
    let mut command = compiler(shell);
    command.args(["-O2", "-fPIC", "-shared", "-Wl,-soname,loader-trial.so"]).arg(format!("{TRIAL}/trial.c"));
    command.arg("-ldl");
    cc::compile(shell, command, &directory.join("loader-trial.so"), &[shell.path(TRIAL)])
}

/// Checks that each header can be included by itself.
pub fn check_headers(shell: &Shell) -> Result<()> {
    let fabric = fabric::libraries(shell)?.map(|_| fabric::SOURCES);
    let mut checks = Vec::new();
    for directory in ["abi/include", AUDIT_SOURCES, mpiio::FRONT, slurm::SOURCES, flux::SOURCES, spawn::SOURCES]
        .into_iter()
        .chain(fabric)
    {
        let mut headers = files::with_extensions(&shell.path(directory), &["h"])?;
        headers.retain(|header| !header.starts_with(shell.path(AUDIT_TESTS)));
        checks.extend(headers.into_iter().map(|header| (directory, header)));
    }
    let results = side_by_side::map(&checks, |(directory, header)| {
        let mut command = compiler(shell);
        command.arg(format!("-I{AUDIT_SOURCES}")).args(["-Impiio".to_owned(), format!("-I{}", mpiio::CALLS)]);
        // For POSIX, sets of processors, as the headers themselves state, and for the loader's lists of objects.
        command.args(["abi/include", spawn::SOURCES, mpiio::FRONT].contains(directory).then_some("-D_GNU_SOURCE"));
        command.args(["-fsyntax-only", "-x", "c", "-include"]).arg(header);
        shell.run(command.arg("/dev/null")).map(drop)
    });
    results.into_iter().collect()
}

/// Checks that a library needs no other library, no thread-local storage and no symbol of the
/// processes that load it, and exports nothing but its interface.
fn verify(data: &[u8]) -> Result<()> {
    let file = ElfFile64::<object::LittleEndian>::parse(data)?;
    let endian = file.endian();
    // Some linkers add sections.
    for symbol in file.dynamic_symbols().filter(|symbol| symbol.kind() != SymbolKind::Section) {
        let name = symbol.name()?;
        ensure!(!symbol.is_undefined(), "`{name}` is undefined");
        ensure!(name.starts_with(AUDIT_EXPORTS), "`{name}` is exported, but is no {AUDIT_EXPORTS}* function");
    }
    let exported = |name: &str| file.dynamic_symbols().any(|symbol| symbol.name() == Ok(name));
    ensure!(exported(AUDIT_ENTRY), "it does not export {AUDIT_ENTRY}");
    for segment in file.elf_header().program_headers(endian, data)? {
        ensure!(segment.p_type(endian) != elf::PT_TLS, "it has thread-local storage (PT_TLS)");
        ensure!(
            segment.p_type(endian) != elf::PT_GNU_STACK || segment.p_flags(endian) & elf::PF_X == 0,
            "its stack is executable"
        );
        for entry in segment.dynamic(endian, data)?.unwrap_or_default() {
            ensure!(entry.tag32(endian) != Some(elf::DT_NEEDED), "it needs another library (DT_NEEDED)");
            ensure!(entry.tag32(endian) != Some(elf::DT_TEXTREL), "it has text relocations");
            ensure!(entry.tag32(endian) != Some(elf::DT_JMPREL), "it calls through a PLT");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, flags: &[&str], expected: Option<&str>) {
        let directory = tempfile::tempdir().unwrap();
        let (input, library) = (directory.path().join("a.c"), directory.path().join("a.so"));
        std::fs::write(&input, source).unwrap();
        let mut command = compiler(&Shell::new(false));
        command.args(FREESTANDING_FLAGS).args(["-shared", "-nostdlib"]).args(flags).arg("-o").arg(&library).arg(&input);
        assert!(command.status().unwrap().success());
        let result = verify(&std::fs::read(&library).unwrap()).map_err(|e| e.to_string());
        match (result, expected) {
            (Ok(()), None) => {}
            (Err(message), Some(part)) => assert!(message.contains(part), "{message}"),
            other => panic!("{source}: {other:?}"),
        }
    }

    #[test]
    fn only_self_contained_libraries_pass() {
        const INITIAL_EXEC: &str = r#"_Thread_local __attribute__((tls_model("initial-exec")))"#;
        let public = r#"__attribute__((visibility("default"))) int "#;
        check(&format!("{public} la_version(void) {{ return 1; }}"), &[], None);
        check("extern int x;\n", &[], Some("does not export la_version"));
        check(&format!("{public} other(void) {{ return 1; }}"), &[], Some("`other` is exported"));
        check(
            &format!("int other(void); {public} la_version(void) {{ return other(); }}"),
            &[],
            Some("`other` is undefined"),
        );
        check(
            &format!("static {INITIAL_EXEC} int x; {public} la_version(void) {{ return x++; }}"),
            &[],
            Some("PT_TLS"),
        );
        check(&format!("{public} la_version(void) {{ return 1; }}"), &["-Wl,--no-as-needed", "-lc"], Some("DT_NEEDED"));
    }
}
