//! Continuing with a predecessor's store.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use headwater_abi::Path;
use headwater_abi::path::PATH_BYTES_MAX;

use super::store::Store;
use crate::layout::{NodeDir, ignore_absent};

impl Store {
    /// Opens the store in `dir`. Keeps files for which `is_complete` returns true, given path and inode number; removes
    /// all others and all incoming files. A removed file counts until no process has it open.
    pub fn adopt(
        dir: &NodeDir,
        scope: Vec<(bool, Path)>,
        is_complete: impl Fn(&Path, u64) -> bool,
    ) -> io::Result<Store> {
        ignore_absent(fs::remove_dir_all(dir.incoming()))?;
        let mut store = Store::create(dir, scope)?;
        store.find_parked()?;
        let mut directories = vec![dir.root()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                let (kind, file) = (entry.file_type()?, entry.path());
                // Below the mirror's prefix a path can be too long to be opened.
                let is_reachable = file.as_os_str().len() <= PATH_BYTES_MAX;
                if kind.is_dir() {
                    directories.extend(is_reachable.then_some(file));
                    continue;
                }
                let metadata = entry.metadata()?;
                store.count_as(&metadata);
                if !kind.is_file() || !is_reachable {
                    continue;
                }
                let source_path = file
                    .strip_prefix(&store.prefix)
                    .ok()
                    .and_then(|below| Path::new(&[b"/", below.as_os_str().as_bytes()].concat()));
                if !source_path.is_some_and(|path| is_complete(&path, metadata.ino())) {
                    store.remove_name(&file)?;
                }
            }
        }
        Ok(store)
    }
}
