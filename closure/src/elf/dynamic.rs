//! An object's requests to the loader: its dependencies and search paths.

use std::fs::File;

use object::elf::{
    DF_1_NODEFLIB, DT_AUXILIARY, DT_FILTER, DT_FLAGS_1, DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ,
    DT_STRTAB, ELFCLASS32, ELFCLASS64, FileHeader32, FileHeader64,
};
use object::endian::Endianness;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef, StringTable};

/// Entries of a dynamic section that are read at most.
const ENTRIES_MAX: usize = 65_536;

/// An object's dynamic section and what belongs to it. Strings are as in the file, before the replacement of
/// `$ORIGIN` and others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// `DT_NEEDED`, and equivalent entries (`DT_FILTER`, `DT_AUXILIARY`), in their order.
    pub needed: Vec<Vec<u8>>,
    /// `DT_RPATH`'s directories; empty if there is a `DT_RUNPATH`, which overrides it.
    pub rpath: Vec<Vec<u8>>,
    /// `DT_RUNPATH`'s directories.
    pub runpath: Vec<Vec<u8>>,
    /// `DT_SONAME`.
    pub soname: Option<Vec<u8>>,
    /// `PT_INTERP`, without its NUL.
    pub interpreter: Option<Vec<u8>>,
    /// The default directories are not searched for its needs (`DF_1_NODEFLIB`).
    pub avoids_default_directories: bool,
}

/// Reads the dynamic section of an ELF executable or library from the whole file, or from a reader of pieces
/// of it. `None` if it is no ELF file, or its headers are invalid; invalid strings are left out.
pub fn read<'data, R: ReadRef<'data>>(file: R) -> Option<Dynamic> {
    let ident = file.read_bytes_at(0, 5).ok()?;
    match ident[4] {
        ELFCLASS32 => read_class::<FileHeader32<Endianness>, R>(file),
        ELFCLASS64 => read_class::<FileHeader64<Endianness>, R>(file),
        _ => None,
    }
}

/// Reads the dynamic section of a file by the pieces that it takes; see [`read`].
pub fn of(file: &File) -> Option<Dynamic> {
    read(&ReadCache::new(file))
}

fn read_class<'data, H: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(file: R) -> Option<Dynamic> {
    let header = H::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    let mut dynamic = Dynamic::default();
    for segment in segments {
        if let Ok(Some(interpreter)) = segment.interpreter(endian, file) {
            dynamic.interpreter = Some(interpreter.to_vec());
        }
    }
    let entries = segments.iter().find_map(|s| s.dynamic(endian, file).ok().flatten()).unwrap_or(&[]);
    let entries = || {
        let entries = entries.iter().take(ENTRIES_MAX).map(|e| (e.d_tag(endian).into(), e.d_val(endian).into()));
        entries.take_while(|&(tag, _)| tag != u64::from(DT_NULL))
    };
    let value = |wanted: u32| entries().find(|&(tag, _)| tag == u64::from(wanted)).map(|(_, value)| value);
    let strings = value(DT_STRTAB).zip(value(DT_STRSZ)).and_then(|(address, bytes)| {
        let offset = segments.iter().find_map(|s| file_offset(s, endian, address))?;
        Some(StringTable::new(file, offset, offset.checked_add(bytes)?))
    });
    let string = |at: u64| strings?.get(u32::try_from(at).ok()?).ok().map(<[u8]>::to_vec);
    for (tag, value) in entries() {
        match u32::try_from(tag) {
            Ok(DT_NEEDED | DT_FILTER | DT_AUXILIARY) => dynamic.needed.extend(string(value)),
            Ok(DT_FLAGS_1) => dynamic.avoids_default_directories = value & u64::from(DF_1_NODEFLIB) != 0,
            Ok(DT_SONAME) => dynamic.soname = string(value),
            Ok(DT_RPATH) => dynamic.rpath = split(string(value)),
            Ok(DT_RUNPATH) => dynamic.runpath = split(string(value)),
            _ => {}
        }
    }
    if value(DT_RUNPATH).is_some() {
        dynamic.rpath.clear();
    }
    Some(dynamic)
}

/// Returns the offset in the file of the byte at a virtual address, if this segment loads it.
fn file_offset<P: ProgramHeader<Endian = Endianness>>(segment: &P, endian: Endianness, address: u64) -> Option<u64> {
    let (start, bytes) = (segment.p_vaddr(endian).into(), segment.p_filesz(endian).into());
    let into = address.checked_sub(start).filter(|&into| into < bytes)?;
    (segment.p_type(endian) == object::elf::PT_LOAD).then(|| segment.p_offset(endian).into().checked_add(into))?
}

/// Splits a search path into directories.
fn split(path: Option<Vec<u8>>) -> Vec<Vec<u8>> {
    path.map_or_else(Vec::new, |path| path.split(|&b| b == b':').map(<[u8]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_real_executable() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let dynamic = read(&*bytes).unwrap();
        assert!(dynamic.needed.iter().any(|n| n.starts_with(b"libc.so")), "{dynamic:?}");
        assert!(dynamic.interpreter.unwrap().starts_with(b"/"));
        assert_eq!(dynamic.soname, None);
    }

    #[test]
    fn search_paths_as_the_linker_wrote_them() {
        let directory = tempfile::tempdir().unwrap();
        for (flags, rpath, runpath) in [
            ("-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib:/opt/x", vec!["$ORIGIN/../lib", "/opt/x"], vec![]),
            ("-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib:/opt/x", vec![], vec!["$ORIGIN/../lib", "/opt/x"]),
        ] {
            let library = directory.path().join("libx.so");
            let mut compiler = std::process::Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-xc", "/dev/null", "-Wl,-soname,libx.so.1", flags, "-o"]);
            assert!(compiler.arg(&library).status().unwrap().success());
            let dynamic = read(&*std::fs::read(&library).unwrap()).unwrap();
            let text =
                |paths: Vec<Vec<u8>>| paths.into_iter().map(|p| String::from_utf8(p).unwrap()).collect::<Vec<_>>();
            assert_eq!(
                (text(dynamic.rpath), text(dynamic.runpath)),
                (rpath.into_iter().map(String::from).collect(), runpath.into_iter().map(String::from).collect(),)
            );
            assert_eq!(dynamic.soname.as_deref(), Some(&b"libx.so.1"[..]));
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(read(&b""[..]), None);
        assert_eq!(read(&b"#!/bin/sh\n"[..]), None);
        assert_eq!(read(&b"\x7fELF\x02"[..]), None);
    }

    proptest! {
        #[test]
        fn flipped_bytes_are_survived(flips in prop::collection::vec((0usize..8192, any::<u8>()), 1..8)) {
            let mut bytes = std::fs::read("/bin/sh").unwrap();
            flips.into_iter().for_each(|(at, value)| bytes[at] = value);
            read(&*bytes);
        }
    }
}
