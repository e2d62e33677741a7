//! How much static thread-local storage an audited program needs.
//!
//! glibc lays the static storage of a plain program out after loading its libraries. With an audit
//! library it has to be laid out before, so that what the libraries of the start-up need comes out
//! of the surplus for ones loaded later, and a program whose libraries need more than about 1.8 KiB
//! would not start. The surplus is on every thread's stack: with too much of it, threads with the
//! smallest allowed stacks can't be made. So as much is added as a plain process would have used.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use headwater_abi::Want;
use headwater_closure::elf::dynamic::{self, Dynamic};
use headwater_closure::libraries::{self, Search};
use object::read::ReadCache;

use crate::shim::{self, Found};

/// glibc's own default, for libraries that are loaded later.
const DEFAULT_BYTES: u64 = 512;
/// At least this much more: what a wrapper starts in the end is not looked into. Threads of 16 KiB
/// can still be made.
const START_UP_BYTES_MIN: u64 = 4096;
/// Nonsense is not believed beyond this.
const START_UP_BYTES_MAX: u64 = 64 << 20;
/// For padding between libraries.
const PADDING_BYTES: u64 = 512;

/// Bytes for glibc's tunable `optional_static_tls`, for a program that is started where `table` is the
/// node's. Its libraries are looked up through the table, as the program itself will do.
pub fn optional_static_tls(program: &Path, table: &Path) -> u64 {
    shim::attach(table);
    let variable = |name: &str| env::var_os(name).map(OsString::into_vec).unwrap_or_default();
    let search = Search {
        preload: variable("LD_PRELOAD"),
        library_path: variable("LD_LIBRARY_PATH"),
        default_directories: libraries::default_directories(),
    };
    let program = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    // Wanted as the program itself will be, so that it is read but once.
    let executable = read(&program, Want::EXECUTE).unwrap_or_default();
    let mut library = |path: &Path| read(path, Want::LOADABLE);
    let start_up = libraries::start_up(&program, &executable, &search, &mut library);
    let needed = start_up.tls_bytes().saturating_add(PADDING_BYTES);
    DEFAULT_BYTES + needed.clamp(START_UP_BYTES_MIN, START_UP_BYTES_MAX)
}

/// The dynamic section of a file, from the node's copy if the session serves it.
fn read(path: &Path, want: Want) -> Option<Dynamic> {
    let file: PathBuf = match shim::find(path, want) {
        Found::Original => path.to_owned(),
        Found::Copy(copy) => copy,
        Found::Nothing => return None,
    };
    let cache = ReadCache::new(File::open(file).ok()?);
    dynamic::read(&cache)
}
