//! Source lines of call sites, from a program's debug information.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use addr2line::Loader;
use anyhow::{Context, Result, anyhow};

/// ELF constants: a program at fixed addresses, and a loaded segment.
const ET_EXEC: u16 = 2;
const PT_LOAD: u32 = 1;
/// Bytes that contain the headers.
const HEADERS_BYTES: u64 = 4096;

/// A program with its debug information.
pub struct Source {
    name: OsString,
    loader: Loader,
    /// The address of the file's first segment.
    base: u64,
}

impl Source {
    /// Opens a program.
    ///
    /// # Errors
    /// It can't be read, or is not a program.
    pub fn open(program: &Path) -> Result<Source> {
        let shown = program.display();
        let loader = Loader::new(program).map_err(|error| anyhow!("{shown} has no debug information: {error}"))?;
        let mut headers = Vec::new();
        File::open(program).and_then(|file| file.take(HEADERS_BYTES).read_to_end(&mut headers))?;
        let name = program.file_name().with_context(|| format!("{shown} is not a file"))?.to_owned();
        Ok(Source { name, loader, base: base(&headers).unwrap_or(0) })
    }

    /// Returns the source line of `module+0xoffset`, a return address; `None` if it is unknown, or of another file.
    pub fn line(&self, frame: &str) -> Option<String> {
        let (module, offset) = frame.rsplit_once("+0x")?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        if Path::new(module).file_name()? != self.name {
            return None;
        }
        // The call precedes its return address.
        let location = self.loader.find_location(self.base + offset.checked_sub(1)?).ok()??;
        let file = Path::new(location.file?).file_name()?.to_string_lossy().into_owned();
        Some(location.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}")))
    }
}

/// Returns the address of the first segment of a program at fixed addresses; `None` for others.
fn base(headers: &[u8]) -> Option<u64> {
    let bytes = |at: usize, size: usize| headers.get(at..at.checked_add(size)?);
    let number = |at: usize, size: usize| {
        bytes(at, size).map(|bytes| bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    if number(16, 2)? as u16 != ET_EXEC {
        return None;
    }
    let (first, size, count) = (number(32, 8)? as usize, number(54, 2)? as usize, number(56, 2)? as usize);
    let mut segments = (0..count).map(|segment| first.saturating_add(segment * size));
    let loaded = segments.find(|&at| number(at, 4).is_some_and(|kind| kind as u32 == PT_LOAD))?;
    let page_bytes = rustix::param::page_size() as u64;
    Some(number(loaded.checked_add(16)?, 8)? / page_bytes * page_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Compiles a program that prints where it is called from, and finds that line.
    fn check(flags: &[&str]) {
        let directory = tempfile::tempdir().unwrap();
        let (file, program) = (directory.path().join("where.c"), directory.path().join("where"));
        let text = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n\
                    __attribute__((noinline)) static void here(void)\n{\n\tDl_info info;\n\
                    \tchar *address = __builtin_return_address(0);\n\tdladdr(address, &info);\n\
                    \tprintf(\"where+0x%lx\", (unsigned long)(address - (char *)info.dli_fbase));\n}\n\
                    int main(void)\n{\n\there();\n\treturn 0;\n}\n";
        std::fs::write(&file, text).unwrap();
        let compiled =
            Command::new("cc").args(["-g", "-rdynamic"]).args(flags).arg("-o").arg(&program).arg(&file).status();
        assert!(compiled.unwrap().success());
        let printed = Command::new(&program).output().unwrap().stdout;
        let frame = String::from_utf8(printed).unwrap();
        let source = Source::open(&program).unwrap();
        assert_eq!(source.line(&frame).as_deref(), Some("where.c:13"), "{frame} {flags:?}");
        assert_eq!(source.line(&frame.replace("where", "other")), None);
        for wrong in ["where", "where+0x", "where+0x0", "where+0xffffffffffff", ""] {
            assert_eq!(source.line(wrong), None);
        }
    }

    #[test]
    fn lines_are_found_wherever_the_program_is_loaded() {
        check(&[]);
        check(&["-no-pie"]);
    }

    #[test]
    fn headers_may_be_anything() {
        let mut headers = vec![0xff; 4096];
        assert_eq!(base(&headers), None);
        headers[16..18].copy_from_slice(&ET_EXEC.to_le_bytes());
        assert_eq!(base(&headers), None);
        assert!((0..80).all(|cut| base(&headers[..cut]).is_none()));
        assert!(Source::open(Path::new("/etc/passwd")).is_err());
    }
}
