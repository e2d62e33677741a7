//! Writes a table file from a description, for the tests of the C readers.
//!
//! `mktable FILE < DESCRIPTION`. One statement a line, words separated by spaces:
//!
//! ```text
//! store DIR            the mirror's prefix; then also: socket PATH, counters PATH, generation N
//! domains MASK         memory domains with mirrors of their own
//! mount DIR            the mount in which large files are read
//! scope + DIR          included; scope - DIR: excluded
//! unaudited            programs run that do not announce changes
//! stored BYTES         larger files are not stored
//! elsewhere            the table of a process that sees other files
//! tree DIR             everything below DIR as it is on this machine, mirrored into the store
//! walk DIR             the same, but without the files' content
//! dir PATH NAME…       a directory with these names
//! file PATH [BYTES]    a regular file
//! link PATH TARGET
//! absent PATH          error ERRNO PATH           unlistable PATH
//! mark PATH BIT…       sets bits of the state, by the names of `State`; -BIT clears
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path as FsPath, PathBuf};

use headwater_abi::attr::mode;
use headwater_abi::listing::{self, d_type};
use headwater_abi::table::{AtomicU64, Fact, Geometry, Header, Ordering, State, Writer};
use headwater_abi::{Attr, Name, Path};

const GEOMETRY: Geometry = Geometry { slot_count: 1 << 14, ino_slot_count: 1 << 13, heap_bytes: 16 << 20 };

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let file = std::env::args_os().nth(1).ok_or("usage: mktable FILE < DESCRIPTION")?;
    let description = io::read_to_string(io::stdin())?;
    let header = header(&description)?;
    let words: Vec<AtomicU64> = (0..GEOMETRY.total_bytes() / 8).map(|_| AtomicU64::new(0)).collect();
    let mut table = Table {
        writer: Writer::create(&words, GEOMETRY, &header, |_| true)?,
        store: PathBuf::from(std::ffi::OsStr::from_bytes(&header.store)),
        scope: header.scope.iter().filter(|s| s.0).map(|s| s.1.clone()).collect(),
        copies: HashMap::new(),
    };
    for line in description.lines() {
        table.statement(line).map_err(|error| format!("{line}: {error}"))?;
    }
    let mut out = io::BufWriter::new(fs::File::create(file)?);
    for word in &words {
        out.write_all(&word.load(Ordering::Relaxed).to_le_bytes())?;
    }
    out.flush()?;
    Ok(())
}

fn header(description: &str) -> Result<Header> {
    let mut header = Header {
        generation: 1,
        scope: Vec::new(),
        store: Vec::new(),
        socket: b"/nonexistent".to_vec(),
        counters: Vec::new(),
        store_dev: (0, 0),
        view: headwater_store::view(),
        stored_file_bytes_max: None,
        follows_fork: true,
    };
    for line in description.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["store", directory] => {
                header.store = directory.as_bytes().to_vec();
                if let Ok(found) = fs::metadata(directory) {
                    header.store_dev = device(found.dev());
                }
            }
            ["socket", path] => header.socket = path.as_bytes().to_vec(),
            ["counters", path] => header.counters = path.as_bytes().to_vec(),
            ["stored", bytes] => header.stored_file_bytes_max = Some(bytes.parse()?),
            ["elsewhere"] => header.view.root_ino += 1,
            ["generation", number] => header.generation = number.parse()?,
            ["scope", sign, directory] => header.scope.push((sign == "+", directory.as_bytes().to_vec())),
            _ => {}
        }
    }
    Ok(header)
}

struct Table<'a, R> {
    writer: Writer<'a, R>,
    store: PathBuf,
    scope: Vec<Vec<u8>>,
    /// Copies in the store by the source file's device and inode, so that hard links stay hard links.
    copies: HashMap<(u64, u64), PathBuf>,
}

impl<R: FnMut(u64) -> bool> Table<'_, R> {
    fn statement(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] | ["store" | "socket" | "counters" | "generation" | "scope" | "stored" | "elsewhere", ..] => Ok(()),
            ["unaudited"] => {
                self.writer.set_unaudited();
                Ok(())
            }
            ["domains", mask] => {
                self.writer.set_domains(mask.parse()?);
                Ok(())
            }
            ["mount", directory] => {
                let device = fs::metadata(directory).map_or((0, 0), |found| device(found.dev()));
                Ok(self.writer.set_mount(directory.as_bytes(), device)?)
            }
            ["tree", directory] => self.tree(FsPath::new(directory), true),
            ["walk", directory] => self.tree(FsPath::new(directory), false),
            ["dir", at, ref names @ ..] => {
                let names = [".", ".."].iter().chain(names).map(|n| entry(n.as_bytes(), 1, d_type::UNKNOWN));
                self.publish(at.as_bytes(), &Fact::Listing(plain(mode::DIR | 0o755), &names.collect()))
            }
            ["file", at] => self.publish(at.as_bytes(), &Fact::Attr(plain(mode::FILE | 0o644))),
            ["file", at, bytes] => {
                let attr = Attr { size: bytes.parse()?, ..plain(mode::FILE | 0o644) };
                self.publish(at.as_bytes(), &Fact::Attr(attr))
            }
            ["link", at, target] => {
                self.publish(at.as_bytes(), &Fact::Link(plain(mode::LINK | 0o777), target.as_bytes()))
            }
            ["absent", at] => self.publish(at.as_bytes(), &Fact::Absent),
            ["error", errno, at] => self.publish(at.as_bytes(), &Fact::Error(errno.parse()?)),
            ["unlistable", at] => self.publish(at.as_bytes(), &Fact::Unlistable(plain(mode::DIR | 0o711))),
            ["mark", at, ref bits @ ..] => {
                let (mut set, mut clear) = (State::empty(), State::empty());
                for bit in bits {
                    let name = bit.trim_start_matches('-');
                    let state = State::from_name(name).ok_or_else(|| format!("{name} is no state"))?;
                    if *bit == name { &mut set } else { &mut clear }.insert(state);
                }
                Ok(self.writer.mark(&path(at.as_bytes())?, set, clear)?)
            }
            _ => Err("not a statement".into()),
        }
    }

    fn publish(&mut self, at: &[u8], fact: &Fact<'_>) -> Result<()> {
        Ok(self.writer.publish(&path(at)?, fact)?)
    }

    fn tree(&mut self, at: &FsPath, with_content: bool) -> Result<()> {
        let found = fs::symlink_metadata(at)?;
        let bytes = at.as_os_str().as_bytes();
        let copy = self.store.join(at.strip_prefix("/")?);
        if found.is_symlink() {
            let target = fs::read_link(at)?;
            let absolute = self.scope.iter().any(|s| target.as_os_str().as_bytes().starts_with(s));
            let mirrored = if absolute { self.store.join(target.strip_prefix("/")?) } else { target.clone() };
            symlink(mirrored, copy)?;
            return self.publish(bytes, &Fact::Link(attr(&found), target.as_os_str().as_bytes()));
        }
        if found.is_dir() {
            fs::create_dir_all(&copy)?;
            let mut names = listing::Builder::default();
            names.push(entry(b".", found.ino(), d_type::DIR));
            names.push(entry(b"..", 1, d_type::DIR));
            let children: Vec<fs::DirEntry> = fs::read_dir(at)?.collect::<io::Result<_>>()?;
            for child in &children {
                let d_type = match child.file_type()? {
                    kind if kind.is_dir() => d_type::DIR,
                    kind if kind.is_symlink() => d_type::LINK,
                    _ => d_type::FILE,
                };
                names.push(entry(child.file_name().as_bytes(), std::os::unix::fs::DirEntryExt::ino(child), d_type));
            }
            self.publish(bytes, &Fact::Listing(attr(&found), &names.finish()))?;
            return children.iter().try_for_each(|child| self.tree(&child.path(), with_content));
        }
        self.publish(bytes, &Fact::Attr(attr(&found)))?;
        if with_content && found.is_file() { self.content(at, &found, &copy) } else { Ok(()) }
    }

    fn content(&mut self, at: &FsPath, found: &fs::Metadata, copy: &FsPath) -> Result<()> {
        match self.copies.get(&(found.dev(), found.ino())) {
            Some(first) => fs::hard_link(first, copy)?,
            None => {
                fs::copy(at, copy)?;
                self.copies.insert((found.dev(), found.ino()), copy.to_path_buf());
            }
        }
        let content = fs::read(at)?;
        let mut state = State::LOADABLE | State::WHOLE;
        state.set(State::EXECUTABLE, found.mode() & mode::SET_ID == 0);
        state.set(State::SCRIPT, content.starts_with(b"#!"));
        state.set(State::NATIVE_OBJECT, content.starts_with(b"\x7fELF\x02") && content[16..18] == [3, 0]);
        let name = path(at.as_os_str().as_bytes())?;
        self.writer.index_inode(&name, fs::metadata(copy)?.ino())?;
        Ok(self.writer.mark(&name, state, State::empty())?)
    }
}

fn path(bytes: &[u8]) -> Result<Path> {
    Path::new(bytes).ok_or_else(|| "not an absolute path".into())
}

fn entry(name: &[u8], ino: u64, d_type: u8) -> Name<'_> {
    Name { ino, d_type, name }
}

fn plain(mode: u32) -> Attr {
    Attr { mode, nlink: 1, size: 1, ..Attr::default() }
}

fn device(dev: u64) -> (u32, u32) {
    let major = (dev >> 8 & 0xfff) | (dev >> 32 & !0xfff);
    let minor = (dev & 0xff) | (dev >> 12 & !0xff);
    (major as u32, minor as u32)
}

fn attr(found: &fs::Metadata) -> Attr {
    let (dev_major, dev_minor) = device(found.dev());
    let (rdev_major, rdev_minor) = device(found.rdev());
    Attr {
        mode: found.mode(),
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        ino: found.ino(),
        dev_major,
        dev_minor,
        rdev_major,
        rdev_minor,
        size: found.size(),
        blocks: found.blocks(),
        blksize: found.blksize() as u32,
        mask: 0x7ff,
        atime: (found.atime(), found.atime_nsec() as u32),
        mtime: (found.mtime(), found.mtime_nsec() as u32),
        ctime: (found.ctime(), found.ctime_nsec() as u32),
        ..Attr::default()
    }
}
