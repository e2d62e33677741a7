//! A reader's threads and the shared file system.

use headwater_abi::wire::{Aspect, Detail, Fact, FileHead};
use headwater_proto::{Input, Output};

use super::shard::Shard;
use super::site::Read;
use crate::queue::Event;
use crate::storage::{Operation, Storage};

/// Bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;
/// `ENOENT`.
const ENOENT: u16 = 2;

impl Shard<'_> {
    /// Assigns a read to a thread, when one is free.
    pub(super) fn read(&mut self, site: u32, at_ns: u64, output: Output) {
        let read = match output {
            Output::ReadEntry { path } => Read::Fact { path, aspect: Aspect::Entry },
            Output::ReadListing { path } => Read::Fact { path, aspect: Aspect::Listing },
            Output::ReadDetails { path, names } => Read::Details { path, names },
            Output::ReadFile { path, aspect, content_bytes_max, .. } => {
                Read::File { path, aspect, head: None, position: 0, content_bytes_max }
            }
            Output::TimeRead { path, bytes, .. } => Read::Sample { path, bytes, begun_ns: None, is_open: false },
            _ => return,
        };
        let threads = self.costs.reader_threads;
        let it = self.at(site);
        let read = it.reads.insert(read);
        if it.reading < threads {
            self.begin_reading(site, at_ns, read);
        } else {
            it.reads_waiting.push_back(read);
        }
    }

    fn begin_reading(&mut self, site: u32, at_ns: u64, number: u32) {
        let program = self.program;
        let it = &mut self.sites[(site - self.first) as usize];
        it.reading += 1;
        let storage = &mut self.storage;
        let done = match it.reads.get_mut(number) {
            Some(Read::Fact { path, aspect: Aspect::Listing }) => {
                let names = match program.fact(path) {
                    Fact::Listing(_, listing) => listing.len() as u64,
                    _ => 0,
                };
                storage.operate(at_ns, path, Operation::List(names), 1)
            }
            Some(Read::Fact { path, .. }) => storage.operate(at_ns, path, Operation::Stat, 1),
            Some(Read::Details { path, names }) => {
                let each = names.iter().filter_map(|name| path.join(name));
                each.fold(at_ns, |at_ns, path| storage.operate(at_ns, &path, Operation::Stat, 1))
            }
            // A file stays open for its blocks.
            Some(Read::File { path, aspect: Aspect::Block(_), .. })
                if program.find(path).is_some_and(|object| it.open.contains(&object)) =>
            {
                at_ns
            }
            // The node may be busy until then, and others' operations come first.
            Some(Read::Sample { .. }) => at_ns,
            Some(Read::File { path, .. }) => {
                it.open.extend(program.find(path));
                storage.operate(at_ns, path, Operation::Open, 1)
            }
            None => return,
        };
        self.plan(site, done, Event::Read(site, number));
    }

    /// Continues a thread's read.
    pub(super) fn continue_reading(&mut self, site: u32, number: u32) {
        let (program, now_ns) = (self.program, self.now_ns);
        let it = &mut self.sites[(site - self.first) as usize];
        let Some(read) = it.reads.get_mut(number) else { return };
        if let Some(done) = sample(read, &mut self.storage, now_ns) {
            return self.plan(site, done, Event::Read(site, number));
        }
        let mut left = 0;
        let input = match read {
            Read::Fact { path, aspect } => {
                Input::FactRead { path: path.clone(), aspect: *aspect, fact: program.fact(path) }
            }
            Read::Details { path, names } => {
                let detail =
                    |name: Box<[u8]>| Some(Detail { fact: attributes(program.fact(&path.join(&name)?)), name });
                let details = std::mem::take(names).into_iter().filter_map(detail).collect();
                Input::DetailsRead { path: path.clone(), details }
            }
            Read::Sample { path, begun_ns, .. } => {
                Input::ReadTimed { path: path.clone(), us: begun_ns.map(|begun_ns| (now_ns - begun_ns) / 1000) }
            }
            Read::File { path, aspect, head, position, content_bytes_max } => {
                let (path, aspect) = (path.clone(), *aspect);
                let input = match head {
                    Some(head) => {
                        *position = (*position + READ_BYTES).min(head.content_bytes());
                        Input::FileRead { path, aspect, position: *position }
                    }
                    None => {
                        *head =
                            content(program.find(&path).map(|object| &program.objects[object as usize].head), aspect);
                        match head.clone() {
                            Some(head) => Input::FileOpened { path, aspect, head },
                            None => Input::FileFailed { path, aspect, errno: ENOENT },
                        }
                    }
                };
                let bytes = head.as_ref().map_or(0, FileHead::content_bytes);
                left = if bytes > *content_bytes_max { 0 } else { bytes - *position };
                input
            }
        };
        match left {
            0 => self.end_reading(site, number),
            _ => {
                let done = self.storage.read(now_ns, left.min(READ_BYTES));
                self.plan(site, done, Event::Read(site, number));
            }
        }
        let done = self.work(site, now_ns, self.costs.receive);
        self.pass_input(site, done, input);
    }

    fn end_reading(&mut self, site: u32, number: u32) {
        let now_ns = self.now_ns;
        let it = self.at(site);
        it.reads.remove(number);
        it.reading -= 1;
        if let Some(waiting) = it.reads_waiting.pop_front() {
            self.begin_reading(site, now_ns, waiting);
        }
    }
}

/// Opens and then reads a sample. Returns when that ends; `None` if the sample has been read, or is something else.
fn sample(read: &mut Read, storage: &mut Storage, now_ns: u64) -> Option<u64> {
    let Read::Sample { path, bytes, begun_ns, is_open } = read else { return None };
    if begun_ns.is_none() {
        *begun_ns = Some(now_ns);
        return Some(storage.operate(now_ns, path, Operation::Open, 1));
    }
    (!std::mem::replace(is_open, true)).then(|| storage.read(now_ns, *bytes))
}

/// Returns the head of the requested content of a file.
fn content(head: Option<&Option<FileHead>>, aspect: Aspect) -> Option<FileHead> {
    let head = head?.as_ref()?;
    match aspect {
        Aspect::Block(number) => head.block(number),
        _ => Some(head.clone()),
    }
}

/// Returns a fact without a directory's names.
fn attributes(fact: Fact) -> Fact {
    match fact {
        Fact::Listing(attr, _) => Fact::Attr(attr),
        fact => fact,
    }
}
