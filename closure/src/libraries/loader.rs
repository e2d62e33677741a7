//! A dynamic loader: its build settings, and the machine's capabilities.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The first version without the legacy subdirectories for hardware capabilities.
const WITHOUT_LEGACY: (u32, u32) = (2, 37);
/// Names of the bits of `dl_hwcap` that such subdirectories have: glibc's `_dl_hwcap_string`.
const LEGACY_NAMES: &[(u32, &str)] = if cfg!(target_arch = "x86_64") {
    &[(0, "sse2"), (1, "x86_64"), (2, "avx512_1")]
} else if cfg!(target_arch = "aarch64") {
    &[(8, "atomics")]
} else {
    &[]
};
/// The last component of such a subdirectory on every machine.
const LEGACY_ALWAYS: &str = "tls";

/// The settings of a loader's searches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loader {
    /// The default directories, in order.
    pub directories: Vec<PathBuf>,
    /// Subdirectories of each directory of a search path, in the order in which they are searched before the
    /// directory itself.
    pub subdirectories: Vec<PathBuf>,
    /// The value of `$LIB`.
    pub lib: Vec<u8>,
    /// The value of `$PLATFORM`, if it has one.
    pub platform: Option<Vec<u8>>,
    /// The capabilities by which its cache distinguishes libraries of one name, the best first.
    pub levels: Vec<String>,
    /// Bits of the hardware's capabilities, as in entries of the cache.
    pub hwcap: u64,
    /// Its cache.
    pub cache: PathBuf,
}

impl Loader {
    /// Queries a loader by `--list-diagnostics` (glibc 2.33 or later); for another one the usual settings are
    /// assumed. The open file is executed, whatever its path. `tunables` is the value of `GLIBC_TUNABLES`.
    pub fn query(file: &File, tunables: Option<&OsStr>) -> Loader {
        let mut command = Command::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
        command.arg("--list-diagnostics").env_clear().stdin(Stdio::null()).stderr(Stdio::null());
        command.envs(tunables.map(|value| ("GLIBC_TUNABLES", value)));
        let output = command.output().ok().filter(|output| output.status.success());
        output.and_then(|output| Loader::parse(&output.stdout)).unwrap_or_else(Loader::usual)
    }

    /// Returns the settings of a distribution's loader.
    pub(crate) fn usual() -> Loader {
        let lib = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
        let directories = [&*format!("/{lib}"), &*format!("/usr/{lib}"), "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
        Loader {
            directories: directories.iter().map(PathBuf::from).collect(),
            subdirectories: Vec::new(),
            lib: lib.into_bytes(),
            platform: Some(std::env::consts::ARCH.into()),
            levels: Vec::new(),
            hwcap: 0,
            cache: "/etc/ld.so.cache".into(),
        }
    }

    fn parse(diagnostics: &[u8]) -> Option<Loader> {
        let lines = || diagnostics.split(|&b| b == b'\n');
        let value = |key: &str| lines().find_map(|line| line.strip_prefix(key.as_bytes())?.strip_prefix(b"="));
        let text = |key: &str| unquoted(value(key)?);
        let number =
            |key: &str| u64::from_str_radix(std::str::from_utf8(value(key)?).ok()?.strip_prefix("0x")?, 16).ok();
        let directory = |n: usize| text(&format!("path.system_dirs[{n:#x}]"));
        let directories: Vec<PathBuf> = (0..).map_while(directory).map(|d| OsStr::from_bytes(d).into()).collect();
        if directories.is_empty() {
            return None;
        }
        let active = number("dl_hwcaps_subdirs_active").unwrap_or(0);
        let names = std::str::from_utf8(text("dl_hwcaps_subdirs").unwrap_or_default()).ok()?.split(':').enumerate();
        let levels: Vec<String> = names
            .filter(|(n, name)| !name.is_empty() && active >> n & 1 == 1)
            .map(|(_, name)| name.to_owned())
            .collect();
        let platform = text("dl_platform").map(<[u8]>::to_vec);
        let (hwcap, important) = (number("dl_hwcap").unwrap_or(0), number("dl_hwcap_important").unwrap_or(0));
        let mut subdirectories: Vec<PathBuf> = levels.iter().map(|name| Path::new("glibc-hwcaps").join(name)).collect();
        if version(text("version.version")?)? < WITHOUT_LEGACY {
            subdirectories.extend(legacy(hwcap & important, platform.as_deref()));
        }
        Some(Loader {
            directories,
            subdirectories,
            lib: text("dl_dst_lib").unwrap_or(b"lib").to_vec(),
            platform,
            levels,
            hwcap,
            cache: Path::new(OsStr::from_bytes(text("path.sysconfdir").unwrap_or(b"/etc"))).join("ld.so.cache"),
        })
    }
}

/// Returns a string of the diagnostics; `None` for one with escaped bytes.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"").filter(|text| !text.contains(&b'\\'))
}

fn version(text: &[u8]) -> Option<(u32, u32)> {
    let mut parts = std::str::from_utf8(text).ok()?.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// Returns all combinations of capabilities, in the order of glibc's `_dl_important_hwcaps`.
fn legacy(hwcap: u64, platform: Option<&[u8]>) -> Vec<PathBuf> {
    let named = LEGACY_NAMES.iter().filter(|(bit, _)| hwcap >> bit & 1 == 1).map(|(_, name)| OsStr::new(name));
    let names: Vec<&OsStr> = named.chain(platform.map(OsStr::from_bytes)).chain([OsStr::new(LEGACY_ALWAYS)]).collect();
    let combination =
        |set: usize| (0..names.len()).rev().filter(|n| set >> n & 1 == 1).map(|n| names[n]).collect::<PathBuf>();
    let mut all: Vec<PathBuf> = Vec::new();
    for set in (1..1usize << names.len()).rev().map(combination) {
        if !all.contains(&set) {
            all.push(set);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diagnostics_of_a_loader() {
        let text = br#"dl_dst_lib="lib64"
dl_hwcap=0x6
dl_hwcap_important=0x6
dl_hwcaps_subdirs="x86-64-v4:x86-64-v3:x86-64-v2"
dl_hwcaps_subdirs_active=0x6
dl_platform="haswell"
path.sysconfdir="/opt/etc"
path.system_dirs[0x0]="/lib64/"
path.system_dirs[0x1]="/usr/lib64/"
version.version="2.36"
"#;
        let loader = Loader::parse(text).unwrap();
        assert_eq!(loader.directories, [Path::new("/lib64"), Path::new("/usr/lib64")]);
        assert_eq!((&*loader.lib, loader.platform.as_deref()), (&b"lib64"[..], Some(&b"haswell"[..])));
        assert_eq!(loader.cache, Path::new("/opt/etc/ld.so.cache"));
        let newer = String::from_utf8(text.to_vec()).unwrap().replace("2.36", "2.37");
        let newer = Loader::parse(newer.as_bytes()).unwrap();
        assert_eq!(newer.subdirectories, ["glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2"].map(PathBuf::from));
        assert_eq!(loader.subdirectories[..2], newer.subdirectories);
        assert_eq!(Loader::parse(b"nonsense\n"), None);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn combinations_of_old() {
        let expected =
            ["tls/haswell/x86_64", "tls/haswell", "tls/x86_64", "tls", "haswell/x86_64", "haswell", "x86_64"];
        assert_eq!(legacy(2, Some(b"haswell")), expected.map(PathBuf::from));
        assert_eq!(legacy(0, None), [PathBuf::from("tls")]);
    }
}
