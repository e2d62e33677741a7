//! Continues from a predecessor's state in the node's directory.
//!
//! The table is the memory: its facts were published, so they stay valid; pending requests are repeated. Content counts
//! if the table marks it complete and the store has it; parts of files are removed.

use std::collections::HashSet;
use std::io;
use std::time::Instant;

use headwater_abi::listing::{Builder, Name};
use headwater_abi::table::{Named, Record, State};
use headwater_abi::wire::{Fact, FileHead};
use headwater_abi::{Kind, Listing, Path};
use headwater_proto::{Memory, Node};
use headwater_store::layout::{NodeDir, ignore_absent};
use headwater_store::{Store, Table};

use crate::config::Config;
use crate::error::{DaemonError, failed};
use crate::session::create_counters;

/// Residency and what it implies.
const RESIDENT: State = State::LOADABLE.union(State::WHOLE);
/// The format bits of a file's head.
const FORMAT: State = State::NATIVE_OBJECT.union(State::EXECUTABLE).union(State::SCRIPT);

/// Returns a new node and store, and the predecessor's table if this daemon continues from one.
pub(crate) fn begin(config: &Config, scope: &[(bool, Path)]) -> Result<(Node, Store, Option<Table>), DaemonError> {
    let dir = config.dir();
    let mut node = Node::new(config.node(scope.to_vec()), config.session.0 as u64 ^ u64::from(config.rank));
    if config.recover
        && let Some(predecessor) = Predecessor::find(config, scope)?
    {
        predecessor.remind(&mut node);
        node.restore_generation(dir.generation());
        return Ok((node, predecessor.store, Some(predecessor.table)));
    }
    let store = Store::create(&dir, scope.to_vec()).map_err(failed("create the store in", dir.path()))?;
    create_counters(&dir.counters()).map_err(failed("create", &dir.counters()))?;
    Ok((node, store, None))
}

/// A predecessor's table and store.
struct Predecessor {
    table: Table,
    store: Store,
}

impl Predecessor {
    /// Finds the predecessor's state; `None` if it ended before it served.
    ///
    /// # Errors
    /// There is a state, but this daemon can't continue from it.
    fn find(config: &Config, scope: &[(bool, Path)]) -> Result<Option<Predecessor>, DaemonError> {
        let dir = config.dir();
        // The link is created when the table is complete.
        if !dir.table_link().exists() {
            clean(&dir).map_err(failed("clean", dir.path()))?;
            return Ok(None);
        }
        let mut table = Table::attach(&dir.table(), config.geometry()).map_err(failed("go on with", &dir.table()))?;
        let reader = table.reader();
        let is_whole = |path: &Path, ino: u64| {
            let record = reader.find(path.as_bytes());
            record.is_some_and(|record| record.state.contains(RESIDENT) && record.store_ino() == ino)
        };
        let store = Store::adopt(&dir, scope.to_vec(), is_whole).map_err(failed("go on with", dir.path()))?;
        let gone = |record: &Record<'_>| {
            let path = path_of(record)?;
            let is_here = record.state.contains(RESIDENT) && store.has(&path);
            (record.state.intersects(RESIDENT) && !is_here).then_some(path)
        };
        let gone: Vec<Path> = reader.records().filter_map(|record| gone(&record)).collect();
        gone.iter().for_each(|path| table.evicted(path));
        remove_socket(&dir).map_err(failed("clean", dir.path()))?;
        Ok(Some(Predecessor { table, store }))
    }

    /// Restores the table's facts in a new node.
    fn remind(&self, node: &mut Node) {
        let started = Instant::now();
        let reader = self.table.reader();
        let known = |record: Record<'static>| path_of(&record).map(|path| (path, record));
        let all: Vec<(Path, Record<'_>)> = reader.records().filter_map(known).collect();
        let facts = all.iter().filter_map(|(path, record)| Some((path, Memory::Fact(fact(record)?))));
        let mut files = HashSet::new();
        let contents = all.iter().filter_map(|(path, record)| {
            let head = head(record)?;
            let file = (head.attr.nlink > 1).then(|| self.store.file_of(path)).flatten();
            let is_linked = file.is_some_and(|file| !files.insert(file));
            Some((path, Memory::Content { head, is_linked }))
        });
        let passthrough =
            all.iter().filter(|(_, record)| record.state.intersects(State::PASSTHROUGH | State::TREE_PASSTHROUGH));
        let passthrough = passthrough
            .map(|(path, record)| (path, Memory::Passthrough { tree: record.state.contains(State::TREE_PASSTHROUGH) }));
        for (path, memory) in facts.chain(contents).chain(passthrough) {
            node.restore(path, memory);
        }
        if reader.is_unaudited() {
            node.restore_unaudited();
        }
        tracing::info!(records = all.len(), took = ?started.elapsed(), "restored the predecessor's facts");
    }
}

/// Removes the state of a predecessor that never served.
fn clean(dir: &NodeDir) -> io::Result<()> {
    remove_socket(dir)?;
    ignore_absent(std::fs::remove_file(dir.counters()))?;
    ignore_absent(dir.remove_generation())
}

fn remove_socket(dir: &NodeDir) -> io::Result<()> {
    ignore_absent(std::fs::remove_file(dir.socket()))
}

fn path_of(record: &Record<'_>) -> Option<Path> {
    Path::new(&record.path()?)
}

/// Returns the fact of a record, if it has one.
fn fact(record: &Record<'_>) -> Option<Fact> {
    Some(match record.kind {
        Kind::Unknown => return None,
        Kind::Absent => Fact::Absent,
        Kind::Error => Fact::Error(record.errno),
        Kind::Link => Fact::Link(record.attr()?, record.aux()?.into()),
        Kind::Dir if record.state.contains(State::LISTED) => Fact::Listing(record.attr()?, listing(record)?),
        Kind::Dir if record.state.contains(State::UNLISTABLE) => Fact::Unlistable(record.attr()?),
        Kind::Dir | Kind::File | Kind::Other => Fact::Attr(record.attr()?),
    })
}

fn listing(record: &Record<'_>) -> Option<Listing> {
    let (names, mut name) = (record.names()?, Vec::new());
    let mut listing = Builder::default();
    for number in 0..names.len() {
        let Named { ino, d_type } = names.get(number, &mut name)?;
        listing.push(Name { ino, d_type, name: &name }).then_some(())?;
    }
    Some(listing.finish())
}

/// Returns the head of a file whose content is complete in the store.
fn head(record: &Record<'_>) -> Option<FileHead> {
    if record.kind != Kind::File || !record.state.contains(RESIDENT) {
        return None;
    }
    let attr = record.attr()?;
    let range = (attr.size > 0).then_some((0, attr.size));
    let format = (record.state & FORMAT).bits();
    Some(FileHead { attr, format, ranges: range.into_iter().collect(), whole: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_abi::attr::mode;
    use headwater_abi::table::{Geometry, Header, View};
    use headwater_abi::wire::Aspect;
    use headwater_abi::{Attr, Want};
    use headwater_proto::{ClientId, Input, Output, Reply};

    const CONTENT: &[u8] = b"0123456789";

    fn path(name: &str) -> Path {
        Path::new(name.as_bytes()).unwrap()
    }

    fn attr() -> Attr {
        Attr { mode: mode::FILE | 0o644, ino: 7, nlink: 1, size: CONTENT.len() as u64, ..Attr::default() }
    }

    fn content(store: &mut Store, table: &mut Table, name: &str, whole: bool) {
        let (path, bytes) = (path(name), if whole { 10 } else { 4 });
        let head = FileHead { attr: attr(), format: 0, ranges: [(0, bytes)].into(), whole };
        store.incoming(&path).create(&head).unwrap();
        store.write(&path, None, &CONTENT[..bytes as usize], 0).unwrap();
        let ino = store.complete(&path, &head).unwrap();
        table.content(&path, if whole { Aspect::Whole } else { Aspect::Loadable }, &head, ino);
    }

    /// Creates a node's directory as a killed daemon leaves it.
    fn left_behind(config: &Config, scope: &[(bool, Path)]) {
        let dir = config.dir();
        let mut store = Store::create(&dir, scope.to_vec()).unwrap();
        create_counters(&dir.counters()).unwrap();
        let header = Header {
            generation: 1,
            scope: Vec::new(),
            store: Vec::new(),
            socket: Vec::new(),
            counters: Vec::new(),
            store_dev: (0, 0),
            view: View::default(),
            stored_file_bytes_max: None,
            follows_fork: true,
        };
        let mut table = Table::create(&dir.table(), config.geometry(), &header).unwrap();
        for name in ["/sw/whole", "/sw/gone"] {
            content(&mut store, &mut table, name, true);
        }
        content(&mut store, &mut table, "/sw/part", false);
        table.fact(&path("/sw"), &Fact::Unlistable(Attr { mode: mode::DIR | 0o711, ..attr() }));
        table.fact(&path("/sw/none"), &Fact::Absent);
        table.set_passthrough(&path("/sw/live"), false);
        assert!(table.record(&path("/sw/unknown")));
        std::fs::remove_file(dir.root().join("sw/gone")).unwrap();
        std::fs::write(dir.root().join("sw/stray"), "x").unwrap();
        std::fs::write(dir.incoming().join("3"), "half").unwrap();
        std::fs::write(dir.socket(), "").unwrap();
        dir.publish().unwrap();
    }

    fn config(directory: &std::path::Path) -> Config {
        Config {
            rank: 0,
            ranks: 1,
            node_dir: directory.join("n0"),
            scope: vec![(true, "/sw".into())],
            table: Some(Geometry { slot_count: 64, ino_slot_count: 64, heap_bytes: 64 << 10 }),
            ..crate::config::tests::config()
        }
    }

    #[test]
    fn facts_and_whole_files_are_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path());
        let scope = config.scope_paths().unwrap();
        left_behind(&config, &scope);
        let predecessor = Predecessor::find(&config, &scope).unwrap().expect("it had served");
        let dir = config.dir();
        let mirrored = std::fs::read_dir(dir.root().join("sw")).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(mirrored.collect::<Vec<_>>(), ["whole"]);
        assert_eq!((std::fs::read_dir(dir.incoming()).unwrap().count(), dir.socket().exists()), (0, false));
        assert_eq!(predecessor.store.bytes(), 4096);
        let reader = predecessor.table.reader();
        for (name, state) in [
            ("/sw/whole", RESIDENT | State::ATTR),
            ("/sw/gone", State::ATTR),
            ("/sw/part", State::ATTR),
            ("/sw/live", State::PASSTHROUGH),
        ] {
            assert_eq!(reader.find(name.as_bytes()).unwrap().state, state, "{name}");
        }

        let mut node = Node::new(config.node(scope), 0);
        predecessor.remind(&mut node);
        assert_eq!((node.stats().store_files, node.stats().store_bytes), (1, 10));
        for (client, name) in (0..).map(ClientId).zip(["/sw/whole", "/sw/none", "/sw/live"]) {
            node.handle(0, Input::Request { client, path: path(name), want: Want::WHOLE });
            assert_eq!(node.poll_output(), Some(Output::Reply { client, reply: Reply::Done }), "{name}");
        }
    }

    #[test]
    fn what_never_served_is_cleaned_away() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path());
        let scope = config.scope_paths().unwrap();
        let dir = config.dir();
        left_behind(&config, &scope);
        std::fs::remove_file(dir.table_link()).unwrap();
        assert!(Predecessor::find(&config, &scope).unwrap().is_none());
        assert!(!dir.generation_dir().exists() && !dir.socket().exists());
    }

    #[test]
    fn a_table_of_other_sizes_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(directory.path());
        let scope = config.scope_paths().unwrap();
        left_behind(&config, &scope);
        config.table = None;
        assert!(Predecessor::find(&config, &scope).is_err());
        assert!(config.dir().table().exists());
    }
}
