//! What the node wants done, and what it is told in return.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use headwater_abi::Path;
use headwater_abi::client::Status;
use headwater_abi::wire::{Fact, FileHead, Message, TransferId};
use headwater_proto::{Input, Output, Publication, Rank, Reply};

use crate::event_loop::Daemon;
use crate::overlay::{Arrival, ArrivalError, ChunkOut, LinkEvent, Next, Outgoing};
use crate::reader::{FileError, FileNews, FileOrder, News, Order};

impl Daemon {
    /// Performs the node's outputs in their order. What the node has to hear of them waits in the
    /// inbox.
    pub(crate) fn perform_outputs(&mut self) {
        while let Some(output) = self.node.poll_output() {
            self.perform(output);
        }
    }

    /// Takes the next message or event of the links; false if there is none.
    pub(crate) fn take_message(&mut self) -> bool {
        let now = self.now();
        let Some(next) = self.links.next(now) else { return false };
        match next {
            Next::Event(LinkEvent::Up(rank)) => self.feed(Input::PeerUp { rank }),
            Next::Event(LinkEvent::Down(rank)) => {
                self.transfers.forget_peer(rank);
                self.feed(Input::PeerDown { rank });
            }
            Next::Event(LinkEvent::ChunkSent(to)) => self.feed(Input::ChunkSent { to }),
            Next::Message(from, message, bytes) => {
                let arrival = self.transfers.arrived(&self.store, from, &message, bytes);
                self.arrived(from, message, arrival);
            }
        }
        true
    }

    /// Tells the node what a reader says.
    pub(crate) fn read(&mut self, news: News) {
        let (order, news) = match news {
            News::Fact(path, aspect, fact) => {
                self.timeline.something_came();
                return self.feed(Input::FactRead { path, aspect, fact });
            }
            News::File(order, news) => (order, news),
        };
        let FileOrder { path, aspect, incoming, .. } = order;
        if !self.store.is_incoming(&path, incoming.number) {
            return;
        }
        match news {
            FileNews::Opened(head) => {
                self.timeline.something_came();
                self.feed(Input::FileOpened { path, aspect, head });
            }
            FileNews::Read(position) => self.feed(Input::FileRead { path, aspect, position }),
            FileNews::Failed(FileError::Original(errno)) => {
                self.store.discard(&path);
                self.feed(Input::FileFailed { path, aspect, errno: errno.raw_os_error() as u16 });
            }
            FileNews::Failed(_) => {
                self.store.discard(&path);
                self.feed(Input::StoreFailed { path });
            }
        }
    }

    fn arrived(&mut self, from: Rank, message: Message, arrival: Result<Arrival, ArrivalError>) {
        if matches!(message, Message::Known { .. } | Message::Chunk { .. }) {
            self.timeline.something_came();
        }
        match arrival {
            Ok(Arrival::Stored) => self.feed(Input::Message { from, message }),
            Ok(Arrival::Unwanted) => {}
            Err(ArrivalError::OutOfRange) => {
                let now = self.now();
                self.links.disconnect(now, from, "a chunk lies outside of its file's content");
            }
            Err(ArrivalError::Store(path, error)) => self.store_failed(path, &error),
        }
    }

    fn perform(&mut self, output: Output) {
        let now = self.now();
        match output {
            Output::Reply { client, reply } => {
                let status = if reply == Reply::Done { Status::Done } else { Status::Fallback };
                self.clients.reply(client, status);
            }
            Output::Send { to, message } => self.links.send(now, to, Outgoing::Message(message)),
            Output::SendChunk { to, transfer, path, position, offset, bytes } => {
                let chunk = ChunkOut { transfer, path, position, offset, bytes };
                self.links.send(now, to, Outgoing::Chunk(chunk));
            }
            Output::ReadEntry { path } => self.order(Order::Entry(path)),
            Output::ReadListing { path } => self.order(Order::Listing(path)),
            Output::ReadFile { path, aspect, have, execute } => {
                let incoming = self.store.incoming(&path);
                self.order(Order::File(FileOrder { path, aspect, have, execute, incoming }));
            }
            Output::Receive { from, transfer, path, head } => self.receive(from, transfer, path, head),
            Output::Discard { path } => {
                self.transfers.forget(&path);
                self.store.discard(&path);
            }
            Output::Publish(publication) => self.publish(publication),
            Output::Evict { path } => self.evict(path),
            Output::Disconnect { rank, reason } => self.links.disconnect(now, rank, reason),
        }
    }

    /// An order that no thread can take is never answered; its clients are sent to the originals
    /// when their time is up.
    fn order(&mut self, order: Order) {
        if let Err(error) = self.readers.order(order) {
            tracing::error!(%error, "no thread can be started to read the shared file system; processes use the originals. A higher limit of processes (ulimit -u) helps");
        }
    }

    fn receive(&mut self, from: Rank, transfer: TransferId, path: Path, head: FileHead) {
        match self.store.incoming(&path).create(head.attr.size) {
            Ok(_) => self.transfers.expect(from, transfer, path, head),
            Err(error) => self.store_failed(path, &error),
        }
    }

    fn publish(&mut self, publication: Publication) {
        match publication {
            Publication::Fact { path, fact } => {
                self.mirror(&path, &fact);
                self.table.fact(&path, &fact);
            }
            Publication::Content { path, aspect, head } => match self.store.complete(&path, &head) {
                Ok(ino) => {
                    self.timeline.file_completed();
                    self.table.content(&path, aspect, &head, ino);
                }
                Err(error) => self.store_failed(path, &error),
            },
            Publication::HardLink { path, target, aspect, head } => match self.store.hard_link(&path, &target) {
                Ok(ino) => self.table.content(&path, aspect, &head, ino),
                Err(error) => self.store_failed(path, &error),
            },
            Publication::Live { path, tree } => self.table.live(&path, tree),
        }
    }

    /// The mirror shows what is known. Where it can't, only opening by a path of the store fails.
    fn mirror(&mut self, path: &Path, fact: &Fact) {
        let result = match fact {
            Fact::Listing(attr, _) | Fact::Unlistable(attr) => self.store.directory(path, attr),
            Fact::Link(_, target) => self.store.symbolic_link(path, target),
            _ => Ok(()),
        };
        if let Err(error) = result {
            tracing::debug!(%path, %error, "not mirrored");
        }
    }

    fn evict(&mut self, path: Path) {
        let now = self.now();
        let table = &mut self.table;
        let result = self.store.evict(now, &path, || table.evicted(&path));
        if let Err(error) = result {
            if error.kind() != io::ErrorKind::WouldBlock {
                tracing::warn!(%path, %error, "a file can't be removed from the store");
            }
            self.inbox.push_back(Input::EvictRefused { path });
        }
    }

    fn store_failed(&mut self, path: Path, error: &io::Error) {
        tracing::warn!(%path, %error, "the store could not take a file; its processes use the original. More space under --store or a smaller --store-max helps");
        self.transfers.forget(&path);
        self.store.discard(&path);
        self.inbox.push_back(Input::StoreFailed { path });
    }
}

/// When this node got what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeline {
    /// The first fact or byte, in milliseconds since the epoch.
    pub(crate) first_byte: Option<u64>,
    /// The last complete file, in milliseconds since the epoch.
    pub(crate) last_file: Option<u64>,
}

impl Timeline {
    fn something_came(&mut self) {
        self.first_byte.get_or_insert_with(unix_ms);
    }

    fn file_completed(&mut self) {
        self.last_file = Some(unix_ms());
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
