//! The loader's cache, `/etc/ld.so.cache`, in the format `glibc-ld.so.cache1.1` (glibc's `dl-cache.h`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Loader;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;
/// Any ELF library of glibc's early versions, which glibc still accepts.
const FLAGS_ELF: u32 = 1;
/// The flags that `ldconfig` writes for this machine's libraries; `None` if unknown.
const FLAGS_NATIVE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0x303)
} else if cfg!(target_arch = "aarch64") {
    Some(0xa03)
} else {
    None
};
const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
/// The extension's section with names of capabilities.
const LEVELS_TAG: u32 = 1;
/// In an entry's capabilities: the low word is the number of such a name. Ten bits below are for the level of
/// the instruction set.
const IS_LEVEL: u64 = 1 << 62;
const LEVEL_BITS: u64 = 0x3ff << 32;
/// Capabilities that always count as present: thread-local storage.
const ALWAYS: u64 = 1 << 63;

#[derive(Debug)]
pub(super) struct Cache {
    bytes: Vec<u8>,
}

impl Cache {
    /// Reads a cache's bytes; one of another format has no libraries.
    pub(super) fn new(mut bytes: Vec<u8>) -> Cache {
        if !bytes.starts_with(MAGIC) {
            bytes.clear();
        }
        Cache { bytes }
    }

    /// Returns the library that glibc's `_dl_load_cache_lookup` chooses. Entries of one name are adjacent,
    /// those for named capabilities first.
    pub(super) fn find(&self, name: &[u8], loader: &Loader) -> Option<PathBuf> {
        let mut best: Option<(usize, &[u8])> = None;
        for number in 0..self.word(MAGIC.len())? as usize {
            let at = HEADER_BYTES.checked_add(number.checked_mul(ENTRY_BYTES)?)?;
            let (flags, key, value) = (self.word(at)?, self.word(at + 4)?, self.word(at + 8)?);
            if (flags != FLAGS_ELF && Some(flags) != FLAGS_NATIVE) || self.text(key)? != name {
                continue;
            }
            let hwcap = u64::from(self.word(at + 16)?) | u64::from(self.word(at + 20)?) << 32;
            let path = self.text(value)?;
            if (hwcap & !LEVEL_BITS) >> 32 == IS_LEVEL >> 32 {
                let level = self.level(hwcap as u32).and_then(|l| loader.levels.iter().position(|n| n.as_bytes() == l));
                if let Some(level) = level.filter(|level| best.is_none_or(|(before, _)| *level < before)) {
                    best = Some((level, path));
                }
                continue;
            }
            if best.is_some_and(|(level, _)| level < usize::MAX) {
                break;
            }
            if hwcap & !(loader.hwcap | ALWAYS) == 0 && (best.is_none() || Some(flags) == FLAGS_NATIVE) {
                best = Some((usize::MAX, path));
                if Some(flags) == FLAGS_NATIVE {
                    break;
                }
            }
        }
        best.map(|(_, path)| Path::new(OsStr::from_bytes(path)).to_owned())
    }

    /// Returns the name of capabilities with this number.
    fn level(&self, number: u32) -> Option<&[u8]> {
        let extension = self.word(32)? as usize;
        if self.word(extension)? != EXTENSION_MAGIC {
            return None;
        }
        let sections = (0..self.word(extension + 4)? as usize).map(|n| extension + 8 + n * 16);
        for at in sections {
            if self.word(at)? == LEVELS_TAG {
                let (names, bytes) = (self.word(at + 8)? as usize, self.word(at + 12)?);
                let is_there = u64::from(number) * 4 < u64::from(bytes);
                return is_there.then(|| self.word(names + number as usize * 4)).flatten().and_then(|n| self.text(n));
            }
        }
        None
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }

    /// Returns the string at an offset.
    fn text(&self, at: u32) -> Option<&[u8]> {
        let rest = self.bytes.get(at as usize..)?;
        Some(&rest[..rest.iter().position(|&b| b == 0)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Makes a cache with these libraries: (name, path, number of its level).
    fn cache(libraries: &[(&str, &str, Option<u32>)], levels: &[&str]) -> Vec<u8> {
        let extension = HEADER_BYTES + libraries.len() * ENTRY_BYTES;
        let names = extension + 24;
        let mut strings = Vec::new();
        let mut text = |t: &str| {
            let at = names + levels.len() * 4 + strings.len();
            strings.extend(t.bytes().chain([0]));
            at as u32
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend([libraries.len() as u32, 0, 0, extension as u32, 0, 0, 0].iter().flat_map(|w| w.to_ne_bytes()));
        for (name, path, level) in libraries {
            let hwcap = level.map_or(0, |level| IS_LEVEL | u64::from(level));
            let words =
                [FLAGS_NATIVE.unwrap_or(FLAGS_ELF), text(name), text(path), 0, hwcap as u32, (hwcap >> 32) as u32];
            bytes.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
        }
        let table = [EXTENSION_MAGIC, 1, LEVELS_TAG, 0, names as u32, levels.len() as u32 * 4];
        bytes.extend(table.iter().flat_map(|w| w.to_ne_bytes()));
        bytes.extend(levels.iter().flat_map(|level| text(level).to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    fn loader() -> Loader {
        Loader { levels: vec!["best".into(), "good".into()], ..Loader::usual() }
    }

    fn libraries() -> Vec<u8> {
        let libraries = [
            ("liba.so", "/g/liba.so", Some(0)),
            ("liba.so", "/b/liba.so", Some(1)),
            ("liba.so", "/x/liba.so", Some(2)),
            ("liba.so", "/liba.so", None),
            ("libb.so", "/x/libb.so", Some(2)),
            ("libb.so", "/libb.so", None),
            ("libc.so", "/libc.so", None),
            ("libc.so", "/later/libc.so", None),
        ];
        cache(&libraries, &["good", "best", "impossible"])
    }

    #[test]
    fn the_best_that_this_machine_can() {
        let cache = Cache::new(libraries());
        for (name, expected) in [
            ("liba.so", Some("/b/liba.so")),
            ("libb.so", Some("/libb.so")),
            ("libc.so", Some("/libc.so")),
            ("libd.so", None),
        ] {
            assert_eq!(cache.find(name.as_bytes(), &loader()), expected.map(PathBuf::from), "{name}");
        }
        assert_eq!(Cache::new(b"other".to_vec()).find(b"liba.so", &loader()), None);
    }

    proptest! {
        #[test]
        fn damage_is_survived(flips in prop::collection::vec((0usize..400, any::<u8>()), 1..8)) {
            let mut bytes = libraries();
            flips.into_iter().filter(|(at, _)| *at < libraries().len()).for_each(|(at, value)| bytes[at] = value);
            Cache::new(bytes).find(b"liba.so", &loader());
        }
    }
}
