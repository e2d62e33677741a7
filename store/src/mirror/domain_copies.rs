//! Copies of files for memory domains.
//!
//! Beside the mirror at `…/root` each further domain has one, such as `…/root3` for domain 3, with the same directories
//! and links. Once published, a name in it leads to a copy until some time after the eviction of the first copy. A copy
//! that is removed before is replaced by a link to the first. A copy in use stays and also keeps the first: a process
//! that opens a library again must find the file that it has loaded.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path as FsPath, PathBuf};
use std::rc::Rc;

use headwater_abi::{Attr, Path};
use rustix::fs::{AtFlags, Mode};

use super::attributes::COPIED_MODE_BITS;
use super::budget::Reservation;
use super::lease;
use super::paths::{DIRECTORY, below, descend, of_domain, step};
use super::store::Store;

/// What replaces a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Instead {
    /// A link to the first copy.
    Link,
    Nothing,
}

impl Store {
    /// Creates mirrors for these domains. Call it before anything is mirrored.
    pub fn replicate_in(&mut self, domains: &[u32]) -> io::Result<()> {
        for &domain in domains {
            let directory = of_domain(&self.prefix, domain);
            std::fs::create_dir_all(&directory)?;
            let root = rustix::fs::open(&directory, DIRECTORY, Mode::empty())?;
            self.replicas.domains.push((domain, Rc::new(root)));
        }
        Ok(())
    }

    /// Returns the bytes of all copies for further domains, which [`Store::bytes`] includes.
    pub fn replica_bytes(&self) -> u64 {
        self.replicas.bytes
    }

    /// Returns the first copy of `path` and a new name for each further domain's copy, if the file is complete and has
    /// none yet.
    pub fn begin_replicas(&mut self, path: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
        if self.hidden.contains(path) || self.replicas.made.contains_key(path) {
            return None;
        }
        let beside = (0..self.replicas.domains.len()).map(|_| self.beside().1).collect();
        Some((self.copy_of(path), beside))
    }

    /// Moves the copies of `path`, one for each further domain in order, into the mirrors. `room` was reserved for
    /// them.
    pub fn add_replicas(&mut self, path: &Path, files: &[PathBuf], mut room: Reservation) -> io::Result<()> {
        let moved_in = self.move_replicas(path, files);
        let copies = self.replicas_of(path);
        if moved_in.is_err() {
            copies.iter().for_each(|copy| drop(std::fs::remove_file(copy)));
            return moved_in;
        }
        let mut bytes = 0;
        for metadata in copies.iter().filter_map(|copy| std::fs::symlink_metadata(copy).ok()) {
            let taken = room.split(metadata.blocks() * 512);
            bytes += metadata.blocks() * 512;
            self.taken.insert(metadata.ino(), taken);
            self.count_as(&metadata);
        }
        self.replicas.made.insert(path.clone(), bytes);
        self.replicas.order.push(path.clone());
        self.replicas.bytes += bytes;
        Ok(())
    }

    pub(super) fn move_replicas(&self, path: &Path, files: &[PathBuf]) -> io::Result<()> {
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        for ((_, root), file) in self.replicas.domains.iter().zip(files) {
            let parent = descend(root, &parent)?;
            rustix::fs::renameat(rustix::fs::CWD, file, &parent, path.name())?;
        }
        Ok(())
    }

    /// Removes unused copies of at most `tries_max` files, the newest first, until `bytes` are free. Returns the freed
    /// bytes.
    pub fn give_up_replicas(&mut self, bytes: u64, tries_max: usize) -> u64 {
        let before = self.replicas.bytes;
        let last: Vec<Path> = self.replicas.order.iter().rev().take(tries_max).cloned().collect();
        for path in last {
            if before - self.replicas.bytes >= bytes {
                break;
            }
            match self.lease_replicas(&path).map(drop) {
                Ok(()) => self.drop_replicas(&path, Instead::Link),
                // The next call tries other files first.
                Err(_) => {
                    self.replicas.order.retain(|other| *other != path);
                    self.replicas.order.insert(0, path);
                }
            }
        }
        before - self.replicas.bytes
    }

    /// Takes leases on all copies of `path`, which shows that none is in use.
    pub(super) fn lease_replicas(&self, path: &Path) -> io::Result<Vec<File>> {
        if !self.replicas.made.contains_key(path) {
            return Ok(Vec::new());
        }
        let lease = |copy: &PathBuf| {
            let file = File::open(copy)?;
            lease::take(&file)?;
            Ok(file)
        };
        self.replicas_of(path).iter().map(lease).collect()
    }

    /// Notes that the first copy of `path` has been evicted, and its copies with it. Returns their bytes, which
    /// [`Store::replica_bytes`] no longer includes.
    pub(super) fn replicas_go(&mut self, path: &Path) -> u64 {
        let replicas = &mut self.replicas;
        let Some(bytes) = replicas.made.get_mut(path).map(std::mem::take) else { return 0 };
        replicas.order.retain(|other| other != path);
        replicas.bytes -= bytes;
        // The same path may have been evicted before, with its copies still there.
        let going = replicas.going.entry(path.clone()).or_default();
        *going += bytes;
        *going
    }

    /// Replaces the copies of `path` by links to the first copy, which is about to be replaced.
    pub(super) fn link_replicas(&mut self, path: &Path) {
        self.drop_replicas(path, Instead::Link);
    }

    /// Removes the copies of `path`, with all that is at its path in the domains' mirrors.
    pub(super) fn remove_replicas(&mut self, path: &Path) {
        self.drop_replicas(path, Instead::Nothing);
        let mut names = Vec::new();
        for (domain, _) in &self.replicas.domains {
            names.push(below(&of_domain(&self.prefix, *domain), path));
        }
        names.iter().for_each(|name| drop(self.remove_name(name)));
    }

    fn drop_replicas(&mut self, path: &Path, instead: Instead) {
        let Some(bytes) = self.replicas.made.remove(path) else { return };
        self.replicas.order.retain(|other| other != path);
        self.replicas.bytes -= bytes;
        self.replicas.going.remove(path);
        let domains: Vec<u32> = self.replicas.domains.iter().map(|(domain, _)| *domain).collect();
        let prefixes: Vec<PathBuf> = self.older.iter().chain([&self.prefix]).cloned().collect();
        for domain in domains {
            let copy = below(&of_domain(&self.prefix, domain), path);
            let Ok(metadata) = std::fs::symlink_metadata(&copy) else { continue };
            for prefix in &prefixes {
                let name = below(&of_domain(prefix, domain), path);
                let is_it = std::fs::symlink_metadata(&name).is_ok_and(|it| it.ino() == metadata.ino());
                if is_it && let Err(error) = self.replace(&name, &below(prefix, path), instead) {
                    tracing::warn!(copy = %name.display(), %error, "a copy for a memory domain can't be removed");
                }
            }
        }
    }

    /// Replaces a copy so that its name always leads to a file.
    fn replace(&mut self, name: &FsPath, first: &FsPath, instead: Instead) -> io::Result<()> {
        if instead == Instead::Nothing {
            return self.remove_name(name);
        }
        let beside = self.incoming_dir.join("link");
        let _ = std::fs::remove_file(&beside);
        match self.make_link(self.dir.shown(first).as_os_str().as_bytes(), rustix::fs::CWD, &beside) {
            // A further name of a file needs no room.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => std::fs::hard_link(first, &beside)?,
            made => self.taken.extend(made?),
        }
        self.exchange(&beside, rustix::fs::CWD, name)
    }

    /// Creates a directory in the domains' mirrors.
    pub(super) fn directory_in_domains(&self, path: &Path, attr: &Attr) -> io::Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        for (_, root) in &self.replicas.domains {
            let parent = descend(root, &parent)?;
            step(&parent, path.name())?;
            let mode = Mode::from(attr.mode & COPIED_MODE_BITS | 0o700);
            rustix::fs::chmodat(&parent, path.name(), mode, AtFlags::empty())?;
        }
        Ok(())
    }

    /// Creates a link in the domains' mirrors; `target` is its target in the first mirror.
    pub(super) fn link_in_domains(&mut self, path: &Path, target: &[u8]) -> io::Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        let rest = target
            .strip_prefix(self.dir.shown(&self.prefix).as_os_str().as_encoded_bytes())
            .filter(|rest| rest.starts_with(b"/"));
        let mut taken = Vec::new();
        for (domain, root) in &self.replicas.domains {
            let parent = descend(root, &parent)?;
            let prefix = self.dir.shown(&of_domain(&self.prefix, *domain));
            let moved = rest.map(|rest| [prefix.as_os_str().as_encoded_bytes(), rest].concat());
            match self.make_link(moved.as_deref().unwrap_or(target), &parent, path.name()) {
                Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::StorageFull) => {}
                made => taken.extend(made?),
            }
        }
        self.taken.extend(taken);
        Ok(())
    }

    /// Switches to the mirrors of a generation without the paths for which `lacks` is true.
    pub(super) fn begin_replica_generation(&mut self, roots: Vec<(u32, Rc<OwnedFd>)>, lacks: impl Fn(&Path) -> bool) {
        let replicas = &mut self.replicas;
        replicas.domains = roots;
        let left: u64 = replicas.made.extract_if(.., |path, _| lacks(path)).map(|(_, bytes)| bytes).sum();
        replicas.order.retain(|path| replicas.made.contains_key(path));
        replicas.bytes -= left;
        replicas.going.clear();
    }

    /// Returns the paths of the copies of `path`.
    pub(super) fn replicas_of(&self, path: &Path) -> Vec<PathBuf> {
        self.replicas.domains.iter().map(|(domain, _)| below(&of_domain(&self.prefix, *domain), path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::NodeDir;
    use headwater_abi::attr::mode;
    use headwater_abi::wire::FileHead;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const DOMAINS: [u32; 2] = [3, 12];
    const FILES: usize = 4;

    #[test]
    fn a_domains_number_stands_behind_the_prefix() {
        for (domain, name) in [(0, "/n/1/root0"), (7, "/n/1/root7"), (63, "/n/1/root63")] {
            assert_eq!(of_domain(FsPath::new("/n/1/root"), domain), FsPath::new(name));
        }
    }

    /// A store, with the expected state.
    struct World {
        dir: tempfile::TempDir,
        store: Store,
        now: u64,
        generation: u64,
        /// Files that are resident according to the table, and whether in the domains' mirrors too.
        resident: HashMap<usize, bool>,
        /// Copies that are open.
        open: Vec<(usize, File)>,
    }

    impl World {
        fn new() -> World {
            let dir = tempfile::tempdir().unwrap();
            let mut store = Store::create(&NodeDir::new(dir.path()), vec![(true, Path::root())]).unwrap();
            store.replicate_in(&DOMAINS).unwrap();
            World { dir, store, now: 0, generation: 1, resident: HashMap::new(), open: Vec::new() }
        }

        fn path(file: usize) -> Path {
            Path::new(format!("/sw/lib/f{file}").as_bytes()).unwrap()
        }

        fn fetch(&mut self, file: usize) {
            let path = World::path(file);
            let bytes = vec![file as u8; 10_000 * (file + 1)];
            let attr = Attr { mode: mode::FILE | 0o644, size: bytes.len() as u64, ..Attr::default() };
            let head = FileHead { attr, format: 0, ranges: [(0, attr.size)].into(), whole: true };
            self.store.incoming(&path).create(&head).unwrap();
            self.store.write(&path, None, &bytes, 0).unwrap();
            self.store.complete(&path, &head).unwrap();
            self.resident.entry(file).or_insert(false);
        }

        fn replicate(&mut self, file: usize) {
            let path = World::path(file);
            let Some((first, files)) = self.store.begin_replicas(&path).filter(|_| self.resident.contains_key(&file))
            else {
                return;
            };
            for copy in &files {
                std::fs::copy(&first, copy).unwrap();
            }
            let room = self.store.budget().reserve(1 << 20).unwrap();
            self.store.add_replicas(&path, &files, room).unwrap();
            self.resident.insert(file, true);
        }

        fn evict(&mut self, file: usize) {
            let is_open = self.open.iter().any(|(of, _)| *of == file);
            let result = self.store.evict(self.now, &World::path(file), || {
                self.resident.remove(&file);
            });
            assert!(!(is_open && result.is_ok()), "an open copy keeps the first");
        }

        fn open(&mut self, file: usize, domain: usize) {
            if self.resident.get(&file) == Some(&true) {
                let copy = File::open(&self.store.replicas_of(&World::path(file))[domain]).unwrap();
                self.open.push((file, copy));
            }
        }

        /// Begins a generation in which one file has changed.
        fn begin_generation(&mut self, changed: usize) {
            self.generation += 1;
            let dir = NodeDir::new(self.dir.path()).of_generation(self.generation);
            std::fs::create_dir(dir.generation_dir()).unwrap();
            let mirror = self.store.next_mirror(&dir, &|path| *path == World::path(changed)).unwrap();
            self.store.begin_generation(mirror);
            self.resident.remove(&changed);
            self.open.retain(|(of, _)| *of != changed);
        }

        fn end_generations(&mut self) {
            for generation in 1..self.generation {
                let dir = NodeDir::new(self.dir.path()).of_generation(generation);
                if dir.generation_dir().exists() {
                    self.store.end_generation(&dir);
                }
            }
        }

        fn check(&self) {
            for (&file, &is_replicated) in &self.resident {
                let content = std::fs::read(self.store.copy_of(&World::path(file))).unwrap();
                for copy in self.store.replicas_of(&World::path(file)).iter().filter(|_| is_replicated) {
                    assert!(std::fs::read(copy).unwrap() == content, "{}", copy.display());
                }
            }
            let (mut directories, mut files) = (vec![self.dir.path().to_owned()], HashMap::new());
            while let Some(directory) = directories.pop() {
                for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
                    let metadata = entry.metadata().unwrap();
                    if metadata.is_dir() {
                        directories.push(entry.path());
                    } else if metadata.is_file() {
                        files.insert(metadata.ino(), metadata.blocks() * 512);
                    }
                }
            }
            assert_eq!(self.store.bytes(), files.values().sum::<u64>());
            assert!(self.store.replica_bytes() + self.store.bytes_going() <= self.store.bytes());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn names_lead_to_copies_and_bytes_are_counted(
            steps in prop::collection::vec((0..9u8, 0..FILES, 0..DOMAINS.len()), 1..60),
        ) {
            let mut world = World::new();
            for (step, file, domain) in steps {
                match step {
                    0 | 1 => world.fetch(file),
                    2 | 3 => world.replicate(file),
                    4 => world.evict(file),
                    5 => {
                        world.now += 6_000;
                        world.store.tick(world.now);
                    }
                    6 => drop(world.store.give_up_replicas(1 + 9_000 * file as u64, FILES)),
                    7 if domain == 0 => world.begin_generation(file),
                    7 => world.end_generations(),
                    _ if domain == 0 => world.open(file, domain),
                    _ => world.open.clear(),
                }
                world.check();
            }
        }
    }
}
