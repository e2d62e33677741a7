//! ELF objects: which bytes of the file a loader reads or maps.

pub mod dynamic;

use headwater_abi::wire::RANGES_MAX;
use object::elf::{
    ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB, ELFOSABI_GNU, ELFOSABI_SYSV, EM_AARCH64, EM_LOONGARCH, EM_PPC64,
    EM_RISCV, EM_S390, EM_X86_64, ET_DYN, ET_EXEC, EV_CURRENT, FileHeader32, FileHeader64, PT_INTERP, PT_LOAD,
};
use object::endian::Endianness;
use object::read::elf::{FileHeader, ProgramHeader};

/// Versions of the GNU ABI that a current glibc knows; see `LIBC_ABI_MAX` in its `libc-abis.h`.
const GNU_ABI_VERSION_MAX: u8 = 8;

/// An ELF executable or library, described by its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The file's bytes that a loader reads or maps: (offset, length) in bytes, ascending, disjoint,
    /// starting on pages, ending on pages or with the file; never more than
    /// [`RANGES_MAX`].
    pub ranges: Vec<(u64, u64)>,
    /// True if this machine's glibc would load it: its `open_verify` accepts the class, byte order, machine
    /// and ABI.
    pub native: bool,
    /// True for a library or a position-independent executable.
    pub shared_object: bool,
    /// True if the object names an interpreter: executables do, and few libraries.
    pub has_interpreter: bool,
}

/// Describes a file of `size` bytes that starts with `prefix`, which contains at least the ELF header and the
/// program headers.
///
/// `None` if the file is no ELF executable or library, or if its headers are unusual and only the whole file
/// is certainly right: headers beyond the prefix, segments beyond the file's end, nothing to load.
pub fn inspect(prefix: &[u8], size: u64) -> Option<Object> {
    inspect_in_pages(prefix, size, rustix::param::page_size() as u64)
}

fn inspect_in_pages(prefix: &[u8], size: u64, page_bytes: u64) -> Option<Object> {
    if !prefix.starts_with(&object::elf::ELFMAG) {
        return None;
    }
    match *prefix.get(4)? {
        ELFCLASS32 => describe::<FileHeader32<Endianness>>(prefix, size, page_bytes),
        ELFCLASS64 => describe::<FileHeader64<Endianness>>(prefix, size, page_bytes),
        _ => None,
    }
}

/// Returns whether this machine's glibc would load an object that starts with `start`, which contains at
/// least the ELF header; `None` if it is no ELF object.
pub fn is_native(start: &[u8]) -> Option<bool> {
    fn check<H: FileHeader<Endian = Endianness>>(start: &[u8]) -> Option<bool> {
        let header = H::parse(start).ok()?;
        Some(has_native_header(header, header.endian().ok()?))
    }
    match *start.strip_prefix(&object::elf::ELFMAG)?.first()? {
        ELFCLASS32 => check::<FileHeader32<Endianness>>(start),
        ELFCLASS64 => check::<FileHeader64<Endianness>>(start),
        _ => None,
    }
}

fn describe<H: FileHeader<Endian = Endianness>>(prefix: &[u8], size: u64, page_bytes: u64) -> Option<Object> {
    let header = H::parse(prefix).ok()?;
    let endian = header.endian().ok()?;
    let e_type = header.e_type(endian);
    if e_type != ET_DYN && e_type != ET_EXEC {
        return None;
    }
    let segments = header.program_headers(endian, prefix).ok()?;
    if !segments.iter().any(|s| s.p_type(endian) == PT_LOAD && s.p_filesz(endian).into() > 0) {
        return None;
    }
    let table_bytes = segments.len() as u64 * size_of::<H::ProgramHeader>() as u64;
    let headers = [(0, size_of::<H>() as u64), (header.e_phoff(endian).into(), table_bytes)];
    let files = segments.iter().map(|s| (s.p_offset(endian).into(), s.p_filesz(endian).into()));
    let ranges = headers.into_iter().chain(files.filter(|&(_, bytes)| bytes > 0));
    Some(Object {
        ranges: merge(ranges.map(|r| pages(r, size, page_bytes)).collect::<Option<Vec<_>>>()?, RANGES_MAX),
        native: has_native_header(header, endian),
        shared_object: e_type == ET_DYN,
        has_interpreter: segments.iter().any(|s| s.p_type(endian) == PT_INTERP),
    })
}

/// Returns the start and end of the pages of a range; `None` if it is not within `size`.
fn pages((offset, bytes): (u64, u64), size: u64, page_bytes: u64) -> Option<(u64, u64)> {
    let end = offset.checked_add(bytes).filter(|&end| end <= size)?;
    Some((offset - offset % page_bytes, end.checked_next_multiple_of(page_bytes)?.min(size)))
}

/// Turns (start, end) in any order into (offset, length), disjoint and ascending. Beyond `ranges_max`, the
/// ones with the narrowest gaps are joined.
fn merge(mut extents: Vec<(u64, u64)>, ranges_max: usize) -> Vec<(u64, u64)> {
    extents.sort_unstable();
    let joined = |gap_max: u64| {
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(extents.len());
        for &(start, end) in &extents {
            match merged.last_mut() {
                Some(last) if start.saturating_sub(last.1) <= gap_max => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        merged
    };
    let mut merged = joined(0);
    if merged.len() > ranges_max {
        let mut gaps: Vec<u64> = merged.windows(2).map(|w| w[1].0 - w[0].1).collect();
        gaps.sort_unstable();
        merged = joined(gaps[merged.len() - ranges_max - 1]);
    }
    merged.into_iter().map(|(start, end)| (start, end - start)).collect()
}

/// Does the checks of glibc's `open_verify` (elf/dl-load.c) on an object's header.
fn has_native_header<H: FileHeader<Endian = Endianness>>(header: &H, endian: Endianness) -> bool {
    let ident = header.e_ident();
    let order = if cfg!(target_endian = "little") { ELFDATA2LSB } else { ELFDATA2MSB };
    let class = if cfg!(target_pointer_width = "64") { ELFCLASS64 } else { ELFCLASS32 };
    let abi_known = match ident.os_abi {
        ELFOSABI_SYSV => ident.abi_version == 0,
        ELFOSABI_GNU => ident.abi_version <= GNU_ABI_VERSION_MAX,
        _ => false,
    };
    abi_known
        && ident.class == class
        && ident.data == order
        && ident.version == EV_CURRENT
        && ident.padding.iter().all(|&b| b == 0)
        && header.e_version(endian) == u32::from(EV_CURRENT)
        && Some(header.e_machine(endian)) == native_machine()
}

/// Returns this machine's number; `None` on a machine where nothing is known to be loadable.
const fn native_machine() -> Option<u16> {
    if cfg!(target_arch = "x86_64") {
        Some(EM_X86_64)
    } else if cfg!(target_arch = "aarch64") {
        Some(EM_AARCH64)
    } else if cfg!(target_arch = "powerpc64") {
        Some(EM_PPC64)
    } else if cfg!(target_arch = "riscv64") {
        Some(EM_RISCV)
    } else if cfg!(target_arch = "s390x") {
        Some(EM_S390)
    } else if cfg!(target_arch = "loongarch64") {
        Some(EM_LOONGARCH)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE_BYTES: u64 = 4096;

    /// Returns a 64-bit little-endian library with these segments: (type, offset, bytes).
    fn image(segments: &[(u32, u64, u64)], size: usize) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        bytes[16] = 3;
        bytes[18] = 62;
        bytes[20] = 1;
        bytes[32] = 64;
        bytes[52] = 64;
        bytes[54] = 56;
        bytes[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        for &(p_type, offset, file_bytes) in segments {
            let words = [u64::from(p_type), offset, 0, 0, file_bytes, file_bytes, 4096];
            bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        }
        bytes.resize(size.max(bytes.len()), 0);
        bytes
    }

    fn check(segments: &[(u32, u64, u64)], size: usize, expected: Option<&[(u64, u64)]>) {
        let object = inspect_in_pages(&image(segments, size), size as u64, PAGE_BYTES);
        assert_eq!(object.as_ref().map(|o| &*o.ranges), expected, "{segments:x?} in {size}");
    }

    #[test]
    fn ranges_are_what_the_loader_maps() {
        check(&[(1, 0, 0x800)], 0x5000, Some(&[(0, 0x1000)]));
        check(&[(1, 0x1000, 0x10), (1, 0x3ff0, 0x20)], 0x9000, Some(&[(0, 0x2000), (0x3000, 0x2000)]));
        check(&[(1, 0x2010, 0xff0), (1, 0, 0x1001)], 0x9000, Some(&[(0, 0x3000)]));
        check(&[(1, 0x3000, 0x123)], 0x3123, Some(&[(0, 0x1000), (0x3000, 0x123)]));
        check(&[(1, 0, 0x100), (4, 0x6004, 4)], 0x9000, Some(&[(0, 0x1000), (0x6000, 0x1000)]));
        check(&[(1, 0, 0x100), (1, 0x20000, 0)], 0x9000, Some(&[(0, 0x1000)]));
    }

    #[test]
    fn ranges_begin_and_end_on_pages_of_the_kernels_size() {
        let library = image(&[(1, 0x1000, 0x10), (1, 0x2_3000, 0x10)], 0x9_0000);
        for (page_bytes, expected) in [
            (0x1000, &[(0, 0x2000), (0x2_3000, 0x1000)][..]),
            (0x4000, &[(0, 0x4000), (0x2_0000, 0x4000)]),
            (0x1_0000, &[(0, 0x1_0000), (0x2_0000, 0x1_0000)]),
        ] {
            assert_eq!(inspect_in_pages(&library, 0x9_0000, page_bytes).unwrap().ranges, expected);
        }
    }

    #[test]
    fn what_is_unusual_counts_as_whole() {
        check(&[], 0x1000, None);
        check(&[(4, 0, 0x100)], 0x1000, None);
        check(&[(1, 0, 0x2000)], 0x1000, None);
        check(&[(1, u64::MAX - 5, 10)], 0x1000, None);
        check(&[(1, 0, u64::MAX)], 0x1000, None);
        assert_eq!(inspect(b"#!/bin/sh\n", 10), None);
        assert_eq!(inspect(b"", 0), None);
        assert_eq!(inspect(b"\x7fELF", 4), None);
        let mut relocatable = image(&[(1, 0, 0x100)], 0x1000);
        relocatable[16] = 1;
        assert_eq!(inspect(&relocatable, 0x1000), None);
    }

    #[test]
    fn headers_beyond_the_prefix_count_as_whole() {
        let bytes = image(&[(1, 0, 0x100)], 0x1000);
        assert!(inspect(&bytes[..120], 0x1000).is_some());
        assert_eq!(inspect(&bytes[..119], 0x1000), None);
    }

    #[test]
    fn many_ranges_are_joined_at_the_narrowest_gaps() {
        let extents: Vec<_> = (0..100u64).map(|n| (n * 100 + n % 7, n * 100 + 10)).collect();
        let merged = merge(extents.clone(), 64);
        assert!(merged.len() <= 64, "{}", merged.len());
        assert!(extents.iter().all(|e| merged.iter().any(|m| m.0 <= e.0 && e.1 <= m.0 + m.1)));
        assert_eq!(merge(vec![(0, 1), (10, 11), (12, 13)], 2), [(0, 1), (10, 3)]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn native_is_what_glibc_accepts() {
        let native = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = image(&[(1, 0, 0x100)], 0x1000);
            change(&mut bytes);
            inspect(&bytes, 0x1000).map(|o| o.native)
        };
        assert_eq!(native(&|_| ()), Some(true));
        assert_eq!(native(&|b| b[18] = 183), Some(false));
        assert_eq!(native(&|b| b[7] = 3), Some(true));
        assert_eq!(native(&|b| b[7] = 9), Some(false));
        assert_eq!(native(&|b| b[8] = 1), Some(false));
        assert_eq!(native(&|b| b[15] = 1), Some(false));
        assert_eq!(native(&|b| b[20] = 2), Some(false));
    }

    #[test]
    fn a_real_executable() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let object = inspect(&bytes[..4096], bytes.len() as u64).unwrap();
        assert!(object.native && object.has_interpreter);
        assert!(object.ranges.iter().map(|r| r.1).sum::<u64>() < bytes.len() as u64);
    }

    fn well_formed(object: &Object, size: u64) {
        let mut end = None;
        assert!(!object.ranges.is_empty() && object.ranges.len() <= RANGES_MAX);
        for &(offset, bytes) in &object.ranges {
            assert!(bytes > 0 && offset % rustix::param::page_size() as u64 == 0 && end < Some(offset));
            assert!(offset + bytes <= size);
            end = Some(offset + bytes);
        }
    }

    proptest! {
        #[test]
        fn any_segments_give_well_formed_ranges(
            segments in prop::collection::vec((0u32..8, 0u64..1 << 20, 0u64..1 << 16), 0..90),
            size in 0u64..1 << 20,
        ) {
            let bytes = image(&segments, 0);
            if let Some(object) = inspect(&bytes, size.max(bytes.len() as u64)) {
                well_formed(&object, size.max(bytes.len() as u64));
            }
        }

        #[test]
        fn flipped_bytes_are_survived(flips in prop::collection::vec((0usize..1024, any::<u8>()), 1..8)) {
            let mut bytes = std::fs::read("/bin/sh").unwrap();
            let size = bytes.len() as u64;
            bytes.truncate(4096);
            flips.into_iter().for_each(|(at, value)| bytes[at] = value);
            if let Some(object) = inspect(&bytes, size) {
                well_formed(&object, size);
            }
        }
    }
}
