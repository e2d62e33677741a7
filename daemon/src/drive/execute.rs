//! Executes the node's outputs, and feeds the results back.

use std::io;
use std::sync::Arc;

use headwater_abi::Path;
use headwater_abi::client::Status;
use headwater_abi::table::{Record, State};
use headwater_abi::wire::{Aspect, Digest, Fact, FileHead, Message, TransferId};
use headwater_overlay::{Arrival, ArrivalError, ContentOut, LinkEvent, Next, store_all};
use headwater_proto::{Input, Output, Peer, Publication, Rank, Reply};
use headwater_reader::{DigestJob, FileError, FileEvent, FileJob, ReadEvent, ReadJob};
use headwater_store::{Followed, Incoming, digest as digest_of_bytes, digest_of};

use super::Daemon;

/// Smaller content is hashed on the event loop's thread.
const DIGEST_AT_ONCE_BYTES_MAX: u64 = 256 << 10;

impl Daemon {
    /// Executes the node's outputs in order, except complete content and replies. These are deferred behind messages,
    /// because other nodes depend on the messages, and the replies only serve this node. The results of outputs are put
    /// into the inbox.
    pub(crate) fn execute_outputs(&mut self) {
        while let Some(output) = self.driver.node.poll_output() {
            match output {
                Output::Publish(Publication::Content { .. }) | Output::Reply { .. } => {
                    self.driver.deferred_outputs.push_back(output)
                }
                Output::Publish(Publication::Arrived { path, aspect, head, have, is_marked }) => {
                    match self.store_received(&path, &head, have.as_ref()) {
                        Ok(()) => {
                            let publication = Publication::Content { path, aspect, head, is_marked };
                            self.driver.deferred_outputs.push_back(Output::Publish(publication));
                        }
                        Err(error) => self.store_failed(path, None, &error),
                    }
                }
                Output::Send { .. } | Output::SendChunk { .. } | Output::SendContent { .. } => self.execute(output),
                // The digest follows its content.
                Output::Digest { ref head, .. } if head.content_bytes() <= DIGEST_AT_ONCE_BYTES_MAX => {
                    self.execute(output);
                }
                _ => {
                    self.flush_deferred();
                    self.execute(output);
                }
            }
        }
    }

    /// Executes the deferred outputs.
    pub(crate) fn flush_deferred(&mut self) {
        while let Some(output) = self.driver.deferred_outputs.pop_front() {
            self.execute(output);
        }
    }

    /// Handles the next message or event of the links; returns false if there is none.
    pub(crate) fn take_message(&mut self) -> bool {
        let now = self.now();
        let Some(next) = self.content.links.next(now) else { return false };
        match next {
            Next::Event(LinkEvent::Up(peer)) => self.feed(Input::PeerUp { peer }),
            Next::Event(LinkEvent::Down(peer)) => {
                if let Peer::Parent(rank) = peer {
                    self.content.transfers.forget_peer(rank);
                }
                self.feed(Input::PeerDown { peer });
            }
            Next::Event(LinkEvent::Absent(rank)) => self.feed(Input::ParentAbsent { rank }),
            Next::Event(LinkEvent::ChunkSent(to)) => self.feed(Input::ChunkSent { to: to.rank() }),
            Next::Message(from @ Peer::Child(_), message, _) => self.feed(Input::Message { from, message }),
            Next::Message(Peer::Parent(from), Message::Content { path, digest, .. }, bytes)
                if digest_of_bytes(bytes) != digest =>
            {
                self.feed(Input::CorruptContent { from, path });
            }
            Next::Message(from, message @ Message::Content { .. }, bytes) => {
                self.driver.received_content.clear();
                self.driver.received_content.extend_from_slice(bytes);
                self.housekeeping.timeline.something_came();
                self.feed(Input::Message { from, message });
            }
            Next::Message(Peer::Parent(from), message, bytes) => {
                let arrival = self.content.transfers.arrived(&self.content.store, from, &message, bytes);
                self.arrived(from, message, arrival);
            }
        }
        true
    }

    /// Feeds a reader's event to the node.
    pub(crate) fn read(&mut self, event: ReadEvent) {
        let (job, event) = match event {
            ReadEvent::Fact(path, aspect, fact) => {
                self.housekeeping.timeline.reader_read(1);
                return self.feed(Input::FactRead { path, aspect, fact });
            }
            ReadEvent::Details(path, details) => {
                self.housekeeping.timeline.reader_read(details.len());
                return self.feed(Input::DetailsRead { path, details });
            }
            ReadEvent::Digest(path, aspect, digest) => return self.feed(Input::Digested { path, aspect, digest }),
            ReadEvent::Timed(path, us) => return self.feed(Input::ReadTimed { path, us }),
            ReadEvent::Found(job, found) => return self.found_cached(job, found),
            ReadEvent::File(job, event) => (job, event),
        };
        let block = job.block();
        let FileJob { path, aspect, incoming, .. } = job;
        if !self.content.store.is_incoming(&path, block, incoming.number) {
            return;
        }
        match event {
            FileEvent::Opened(head) => {
                self.housekeeping.timeline.reader_read(1);
                self.feed(Input::FileOpened { path, aspect, head });
            }
            FileEvent::Read(position) => self.feed(Input::FileRead { path, aspect, position }),
            FileEvent::All(head) => {
                self.housekeeping.timeline.reader_read(1);
                let position = head.content_bytes();
                self.feed(Input::FileOpened { path: path.clone(), aspect, head });
                self.feed(Input::FileRead { path, aspect, position });
            }
            FileEvent::Failed(FileError::Source(errno)) => {
                self.content.store.discard(&path, block);
                self.feed(Input::FileFailed { path, aspect, errno: errno.raw_os_error() as u16 });
            }
            FileEvent::Failed(_) => {
                self.report_store_failure(&path, &io::ErrorKind::StorageFull.into());
                self.content.store.discard(&path, block);
                self.feed(Input::StoreFailed { path, block });
            }
        }
    }

    fn arrived(&mut self, from: Rank, message: Message, arrival: Result<Arrival, ArrivalError>) {
        self.housekeeping.timeline.from_parent += match &message {
            Message::Known { .. } => 1,
            Message::Details { details, .. } => details.len() as u64,
            _ => 0,
        };
        if matches!(message, Message::Known { .. } | Message::Details { .. } | Message::Chunk { .. }) {
            self.housekeeping.timeline.something_came();
        }
        match (arrival, message) {
            (Ok(Arrival::Right), message) => self.feed(Input::Message { from: Peer::Parent(from), message }),
            (Ok(Arrival::Wrong), Message::End { transfer, .. }) => self.feed(Input::Corrupt { from, transfer }),
            (Ok(Arrival::Wrong | Arrival::Unwanted), _) => {}
            (Err(ArrivalError::OutOfRange), _) => {
                let now = self.now();
                self.content.links.disconnect(now, Peer::Parent(from), "a chunk is not the next of its file's content");
            }
            (Err(ArrivalError::Store(path, block, error)), _) => self.store_failed(path, block, &error),
        }
    }

    fn execute(&mut self, output: Output) {
        let now = self.now();
        self.record_output(&output);
        match output {
            Output::Dial { rank } => self.content.links.dial(now, rank),
            Output::HangUp { rank } => self.hang_up(rank),
            Output::Reply { client, reply } => {
                let is_cut_off = reply == Reply::Fallback && !self.content.links.has_a_parent();
                if is_cut_off && self.frontends.mount.as_mut().is_some_and(|mount| mount.park_for_retry(now, client)) {
                    return;
                }
                if self.frontends.mount.as_mut().is_some_and(|mount| mount.answer(client, reply == Reply::Done)) {
                    return;
                }
                if !self.content.generations.settled(client) && !self.preload_answered(client, reply) {
                    let status = if reply == Reply::Done { Status::Done } else { Status::Fallback };
                    self.frontends.clients.reply(client, status);
                }
            }
            Output::Send { to, message } => self.content.links.send(now, to, message),
            Output::SendChunk { to, transfer, path, block, position, offset, bytes } => {
                let message = Message::Chunk { transfer, position, bytes };
                let ranges = [(offset, u64::from(bytes))].into();
                self.content.links.send_content(now, Peer::Child(to), ContentOut { message, path, block, ranges });
            }
            Output::SendContent { to, path, aspect, head, digest } => {
                let (ranges, head) = (head.ranges.clone(), FileHead::clone(&head));
                let message = Message::Content { path: path.clone(), aspect, head, digest };
                let content = ContentOut { message, path, block: None, ranges };
                self.content.links.send_content(now, Peer::Child(to), content);
            }
            Output::ReadEntry { path } => self.content.readers.submit(ReadJob::Entry(path)),
            Output::ReadListing { path } => self.content.readers.submit(ReadJob::Listing(path)),
            Output::ReadDetails { path, names } => self.content.readers.submit(ReadJob::Details(path, names)),
            Output::ReadFile { path, aspect, have, execute, content_bytes_max, file_bytes_max } => {
                let size = have.as_ref().map_or(0, |have| have.attr.size);
                self.read_file(path, aspect, size, move |path, incoming| FileJob {
                    path,
                    aspect,
                    have,
                    execute,
                    content_bytes_max,
                    file_bytes_max,
                    incoming,
                });
            }
            Output::TimeRead { path, offset, bytes } => self.content.readers.submit(ReadJob::Time(path, offset, bytes)),
            Output::FindCached { path, aspect, attr, have } => self.find_cached(path, aspect, attr, have),
            Output::Receive { from, transfer, path, block, head, position, have } => {
                self.receive((from, transfer), (path, block), head, position, have);
            }
            Output::Digest { path, aspect, head } => self.digest(path, aspect, &head),
            Output::Mismatch { path, from } => self.mismatch(&path, from),
            Output::Discard { path, block } => self.discard(&path, block),
            Output::Forget { path } => self.forget(path),
            Output::Changed { path } => self.changed(path),
            Output::Publish(publication) => self.publish(publication),
            Output::Settle { number } => self.settle_kernel(number),
            Output::Evict { path } => self.evict(path),
            Output::Cleared { path, subtree, next, in_transit } => self.cleared(path, subtree, next, in_transit),
            Output::DropLookupCache => self.content.readers.revalidate(),
            Output::Generation { generation, changes, passthrough } => {
                self.begin_generation(generation, changes.as_deref(), &passthrough);
            }
            Output::Refreshed { request, generation, changed } => self.refreshed(request, generation, changed),
            Output::RefreshFailed { request } => self.refresh_failed(request),
            Output::Disconnect { peer, reason } => self.content.links.disconnect(now, peer, reason),
        }
    }

    fn discard(&mut self, path: &Path, block: Option<u32>) {
        self.content.transfers.forget(path, block);
        self.content.store.discard(path, block);
    }

    fn hang_up(&mut self, rank: Rank) {
        self.content.links.hang_up(self.now(), rank);
        self.content.transfers.forget_peer(rank);
    }

    fn read_file(&mut self, path: Path, aspect: Aspect, size: u64, job: impl FnOnce(Path, Arc<Incoming>) -> FileJob) {
        let block = aspect.block();
        self.find_room();
        match self.incoming(&path, block, size) {
            Ok(incoming) => self.content.readers.submit(ReadJob::File(job(path, incoming))),
            Err(error) => self.store_failed(path, block, &error),
        }
    }

    /// Prepares the store for content that a parent sends from `position` on; content before that stays.
    fn receive(
        &mut self,
        (from, transfer): (Rank, TransferId),
        (path, block): (Path, Option<u32>),
        head: FileHead,
        position: u64,
        have: Option<FileHead>,
    ) {
        self.housekeeping.timeline.from_parent += 1;
        self.find_room();
        let created = self.incoming(&path, block, head.attr.size).and_then(|incoming| {
            incoming.create(&head)?;
            Ok(incoming.is_in_place())
        });
        let piece = (path.clone(), block);
        let expected = created.and_then(|is_in_place| {
            let have = have.filter(|_| is_in_place);
            self.content.transfers.expect(&self.content.store, (from, transfer), piece, head, position, have)
        });
        if let Err(error) = expected {
            self.store_failed(path, block, &error);
        }
    }

    /// Stores the content of the message that is being handled.
    fn store_received(&mut self, path: &Path, head: &FileHead, have: Option<&FileHead>) -> io::Result<()> {
        self.housekeeping.timeline.from_parent += 1;
        self.find_room();
        store_all(&mut self.content.store, path, head, have, &self.driver.received_content)
    }

    /// If the store is short of room, makes it free unused memory.
    pub(super) fn find_room(&mut self) {
        let now = self.now();
        if self.content.store.budget().is_short() {
            self.content.store.find_room(now);
        }
    }

    /// Hashes stored content: short content at once, longer content on a reader thread.
    fn digest(&mut self, path: Path, aspect: Aspect, head: &FileHead) {
        let block = aspect.block();
        if head.content_bytes() > DIGEST_AT_ONCE_BYTES_MAX {
            match self.content.store.open_copy(&path) {
                Ok(copy) => {
                    return self.content.readers.submit(ReadJob::Digest(DigestJob {
                        path,
                        aspect,
                        head: head.clone(),
                        copy,
                    }));
                }
                Err(error) => return self.digested(path, aspect, Err(error)),
            }
        }
        let digest = digest_of(head, |bytes, at| self.content.store.read(&path, block, bytes, at));
        self.digested(path, aspect, digest);
    }

    fn digested(&mut self, path: Path, aspect: Aspect, digest: io::Result<Digest>) {
        if let Err(error) = &digest {
            tracing::warn!(%path, %error, "the store's copy can't be read; check the memory and the file system of --store");
        }
        self.driver.inbox.push_back(Input::Digested { path, aspect, digest: digest.ok() });
    }

    /// Reports content that differs from what its reader read.
    fn mismatch(&mut self, path: &Path, from: Rank) {
        self.housekeeping.timeline.mismatches += 1;
        let address = self.content.links.address(from);
        tracing::warn!(%path, rank = from.0, ?address, "a node has sent damaged content, which is fetched from another node. If this recurs, check that node's memory and network");
    }

    pub(super) fn incoming(&mut self, path: &Path, block: Option<u32>, size: u64) -> io::Result<Arc<Incoming>> {
        match block {
            None => Ok(self.content.store.incoming(path)),
            Some(number) => self.content.store.incoming_block(path, number, size),
        }
    }

    fn publish(&mut self, publication: Publication) {
        match &publication {
            Publication::Content { path, .. } => self.content.transfers.forget(path, None),
            Publication::Block { path, block, .. } => self.content.transfers.forget(path, Some(*block)),
            _ => {}
        }
        match publication {
            Publication::Fact { path, fact } => {
                self.remember(&path);
                self.mirror(&path, &fact);
                self.learned(&path, &fact);
                self.content.table.fact(&path, &fact);
            }
            Publication::Content { path, aspect, head, is_marked } => match self.content.store.complete(&path, &head) {
                Ok(ino) => {
                    self.housekeeping.timeline.file_completed();
                    self.remember(&path);
                    if is_marked {
                        self.content.store.blocks().mark(&path);
                    }
                    self.content.table.content(&path, aspect, &head, ino);
                    self.keep(&path, aspect, &head);
                    self.replicate(&path, &head);
                }
                Err(error) => self.store_failed(path, None, &error),
            },
            // Stored by `execute_outputs`, and published as `Content`.
            Publication::Arrived { .. } => {}
            Publication::Block { path, block, is_marked, head } => {
                match self.content.store.complete_block(&path, block, is_marked) {
                    Ok(()) => self.keep(&path, Aspect::Block(block), &head),
                    Err(error) => self.store_failed(path, Some(block), &error),
                }
            }
            Publication::HardLink { path, target, aspect, head } => {
                match self.content.store.hard_link(&path, &target) {
                    Ok(ino) => {
                        self.remember(&path);
                        self.content.table.content(&path, aspect, &head, ino);
                    }
                    Err(error) => self.store_failed(path, None, &error),
                }
            }
            Publication::Passthrough { path, tree } => {
                self.content.table.set_passthrough(&path, tree);
                self.content.generations.set_passthrough(&path, tree);
                self.frontends.mount.iter().for_each(|mount| mount.became_passthrough(&path, tree));
                self.follow(path);
            }
            Publication::Direct { path } => self.content.table.set_direct(&path),
            Publication::InMount { path, head } => self.content.table.set_in_mount(&path, &head),
            // A mount sees all changes that are made in it.
            Publication::Unaudited => {
                tracing::info!(
                    "a program runs without audit, and its changes are not reported: processes compare facts with the source files"
                );
                self.content.table.unaudited();
                self.content.generations.unaudited();
            }
        }
    }

    /// Keeps the copy of `path` up to date with its source file, for processes that have it open.
    fn follow(&mut self, path: Path) {
        if !self.serves_audit {
            return;
        }
        let Some(copy) = self.content.store.copy_to_follow(&path) else { return };
        let attr = self.content.table.reader().find(path.as_bytes()).and_then(|record| record.attr());
        if let Some(attr) = attr {
            self.content.following.follow(Followed::new(path, copy, attr), self.content.store.budget());
        }
    }

    /// Restores the following of a predecessor's passthrough paths.
    pub(crate) fn follow_again(&mut self) {
        let is_passthrough = |record: &Record<'_>| record.state.contains(State::PASSTHROUGH);
        let records = self.content.table.reader().records().filter(is_passthrough);
        let paths: Vec<Path> = records.filter_map(|record| Path::new(&record.path()?)).collect();
        paths.into_iter().for_each(|path| self.follow(path));
    }

    /// Shows the fact in the mirror. If that fails, only opening by a path of the store fails.
    fn mirror(&mut self, path: &Path, fact: &Fact) {
        let result = match fact {
            Fact::Listing(attr, _) | Fact::Unlistable(attr) => self.content.store.directory(path, attr),
            Fact::Link(_, target) => self.content.store.symbolic_link(path, target),
            _ => Ok(()),
        };
        if let Err(error) = result {
            tracing::debug!(%path, %error, "not mirrored");
        }
    }

    fn evict(&mut self, path: Path) {
        let now = self.now();
        if let Some(mount) = &self.frontends.mount {
            mount.close_copy(&path);
        }
        let ino = self.content.table.copy_of(&path);
        let (table, generations) = (&mut self.content.table, &mut self.content.generations);
        let bytes = self.content.store.copy_bytes(&path);
        let is_pinned = self.frontends.clearings.current().is_some()
            && self.frontends.mount.as_ref().is_some_and(|mount| mount.is_referred(table, &path));
        let result = if is_pinned {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            self.content.store.evict(now, &path, || {
                table.evicted(&path);
                generations.evicted(&path, ino);
            })
        };
        if let Some(cleared) = self.frontends.clearings.current() {
            cleared.note(&result, bytes);
        }
        if let Err(error) = result {
            if error.kind() != io::ErrorKind::WouldBlock {
                tracing::warn!(%path, %error, "a file can't be removed from the store; check the permissions under --store");
            }
            self.driver.inbox.push_back(Input::EvictRefused { path });
        }
    }

    fn remember(&mut self, path: &Path) {
        if let Some(mount) = &mut self.frontends.mount {
            mount.remember(path);
        }
    }

    /// Drops the record of a path that the node has forgotten.
    fn forget(&mut self, path: Path) {
        match &mut self.frontends.mount {
            Some(mount) => mount.forget(&mut self.content.table, path),
            // Facts are forgotten only if no process under audit reads the table.
            None => drop(self.content.table.reclaim(&path)),
        }
    }

    /// Reports that the source file of this path has changed.
    fn changed(&mut self, path: Path) {
        tracing::warn!(%path, "the file has changed or vanished during the session; from now on its processes use the source file. Run `headwater refresh` to publish changes, or exclude it with --exclude");
        self.housekeeping.changes.note(&path);
        if self.is_site_export {
            let now = self.now();
            self.frontends.refreshes.note(now, path);
        }
    }

    /// Reports at intervals which option helps, and checks the free room soon.
    fn report_store_failure(&mut self, path: &Path, error: &io::Error) {
        let now = self.now();
        let Some(unreported) = self.housekeeping.pressure.store_failed(now) else { return };
        let (max, configured) = self.housekeeping.pressure.store_bytes_max();
        let helps = match error.raw_os_error() {
            // The store's own limit.
            None if max == configured => "A larger --store-max",
            None => "More memory or another directory with --store",
            Some(_) => "More space under --store, another directory or a smaller --store-max",
        };
        tracing::warn!(%path, %error, store_max = max, unreported, "a file does not fit into the store, and processes use its source file. {helps} helps. Further files are only counted for a minute");
    }

    fn store_failed(&mut self, path: Path, block: Option<u32>, error: &io::Error) {
        self.report_store_failure(&path, error);
        self.discard(&path, block);
        self.driver.inbox.push_back(Input::StoreFailed { path, block });
    }
}
