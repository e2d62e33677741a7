//! One node's decisions.

mod ahead;
mod ask;
mod block;
mod clear;
mod compare;
mod content;
mod details;
mod downstream;
mod forget;
mod large;
mod learn;
mod parents;
mod peers;
mod preload;
mod refresh;
mod restore;
mod room;
mod route;
mod serve;
mod store;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use headwater_abi::wire::Aspect;
use headwater_abi::{Path, Want};

use crate::ahead::By;
use crate::entries::Entries;
use crate::entry::{Entry, Inode, Piece};
use crate::evict::Sieve;
use crate::passthrough::PassthroughPaths;
use crate::pending::{Client, Key, PendingRequests, Waiter};
use crate::policy::{PushPolicy, Thing};
use crate::scope::Scope;
use crate::state::parent::Parent;
use crate::state::refresh::Refresh;
use crate::state::version_reports::VersionReports;
use crate::stored::StoredContent;
use crate::timeouts::AdaptiveTimeouts;
use crate::topology::Up;
use crate::transfer::{Child, Children};
use crate::traversal::Traversal;
use crate::versions::Versions;
use crate::walk::{Map, Step};
use crate::{ClientId, Config, Input, Load, Output, Publication, Rank, Reply, Stats, Time};

/// How often a request may wait. A path has fewer components and links; but where room is short, what one
/// step has learnt may be forgotten or evicted by the next.
const ROUNDS_MAX: u32 = 10_000;

/// The state machine of one node.
///
/// The driver gives inputs to [`Node::handle`] as they happen, then drains [`Node::poll_output`], and
/// calls [`Node::handle_timeout`] when the moment of [`Node::poll_timeout`] has come. It performs
/// outputs in their order, as far as that can be seen by a process or by one peer: what is published
/// before a reply is visible to whoever gets the reply, and messages and chunks reach a peer in the
/// order in which they were put out.
///
/// What the driver owes:
/// - Each [`Output::ReadEntry`] and [`Output::ReadListing`] is answered by one [`Input::FactRead`], an
///   [`Output::ReadDetails`] by one [`Input::DetailsRead`]; an [`Output::ReadFile`] by [`Input::FileOpened`] and ascending [`Input::FileRead`]s up to the end
///   of the content, or by [`Input::FileFailed`] at any point. After an [`Output::Discard`] or an
///   [`Input::StoreFailed`] of the path nothing more comes from that read.
/// - [`Output::Discard`] takes away what has arrived since the last publication of the path's content, or
///   of one block; what was published stays. The whole of a file that is partly in the store (`have`, or
///   a [`Output::Receive`] of a path whose content is published) is written in place, and so is a block.
/// - An [`Output::SendChunk`] or [`Output::SendContent`] is answered by one [`Input::ChunkSent`], even if
///   the file has gone from the store meanwhile and its bytes were not sent, unless the link goes down first.
/// - A [`Publication::Arrived`] whose bytes can't be stored is answered by [`Input::StoreFailed`], and not
///   published; nor is a further name of it.
/// - After [`Input::PeerDown`] nothing more comes from that link. An [`Output::Disconnect`] counts as
///   the link's end; the `PeerDown` that follows from it may be given or not.
/// - A [`ClientId`] is never used twice. The `Hello` of a link is checked before `PeerUp`.
///
/// What the node promises:
/// - Each request gets exactly one [`Output::Reply`], unless its client goes away first.
/// - Nothing is published about a path that contradicts what was published before.
/// - Only the root of a path's tree puts out reads of it, or who succeeds a root that is lost. It reads each directory once, opens each file once
///   for each aspect, and does not ask for names that a known listing lacks, as long as nothing fails,
///   times out, is evicted or forgotten.
/// - No input from a peer makes it panic; a breach of protocol puts out [`Output::Disconnect`].
#[derive(Debug)]
pub struct Node {
    config: Config,
    scope: Scope,
    entries: Entries,
    passthrough: PassthroughPaths,
    /// Programs run that do not say what they change.
    is_unaudited: bool,
    pending: PendingRequests,
    clients: BTreeMap<ClientId, Box<Client>>,
    /// What could lately not be had, and when that was. Content fails as a whole.
    failed: BTreeMap<Key, Time>,
    /// The time of the input that is being handled.
    now: Time,
    /// Where this node turns in each tree; `None` in those that it is no member of.
    ups: Vec<Option<Up>>,
    parents: BTreeMap<Rank, Parent>,
    timeouts: AdaptiveTimeouts,
    /// Whether there may be a parent that is not wanted any more.
    has_unwanted: bool,
    children: Children,
    /// Files that are being gathered of which something has come.
    downloads: VecDeque<Path>,
    /// Content whose digest is being computed.
    digesting: BTreeSet<Key>,
    next_transfer: u64,
    /// Files to read, and those being read.
    reads_waiting: VecDeque<Key>,
    reads: BTreeMap<Piece, Aspect>,
    /// Names to examine: numbers in a directory's listing; and how many of these are being examined.
    batches_waiting: VecDeque<(Path, Range<usize>)>,
    batches_reading: usize,
    /// Complete content of files with several names.
    inodes: BTreeMap<Inode, Vec<Path>>,
    traversal: Traversal,
    /// Where files are read one after the other, and in which order.
    reading: Traversal,
    read_by: Option<By>,
    sieve: Sieve,
    /// Content that was lately evicted, in case that is refused.
    evicted: VecDeque<Evicted>,
    push_policy: PushPolicy,
    /// Paths in the order in which they may be forgotten, and directories that were listed.
    forgettable: VecDeque<Path>,
    listed: VecDeque<Path>,
    learnt: u32,
    /// The same when something was last forgotten.
    learnt_before: u32,
    versions: Versions,
    refresh: Refresh,
    version_reports: VersionReports,
    /// Those whose question was answered.
    woken: VecDeque<Waiter>,
    /// What was obtained and may have to be pushed.
    fresh: VecDeque<Thing>,
    outputs: VecDeque<Output>,
    stats: Stats,
}

#[derive(Debug)]
struct Evicted {
    path: Path,
    stored: Box<StoredContent>,
    /// Whether other names may share its file in the store.
    is_shared: bool,
    /// What the room was made for.
    for_path: Path,
}

impl Node {
    /// A node that knows nothing. `seed` decides what is left to chance.
    pub fn new(config: Config, seed: u64) -> Node {
        let mut node = Node {
            scope: Scope::new(config.scope.clone()),
            entries: Entries::new(config.limits.entries_max),
            passthrough: PassthroughPaths::default(),
            is_unaudited: false,
            pending: PendingRequests::default(),
            clients: BTreeMap::new(),
            failed: BTreeMap::new(),
            now: 0,
            ups: Vec::new(),
            parents: BTreeMap::new(),
            timeouts: AdaptiveTimeouts::default(),
            has_unwanted: false,
            children: Children::default(),
            downloads: VecDeque::new(),
            digesting: BTreeSet::new(),
            next_transfer: 1,
            reads_waiting: VecDeque::new(),
            reads: BTreeMap::new(),
            batches_waiting: VecDeque::new(),
            batches_reading: 0,
            inodes: BTreeMap::new(),
            traversal: Traversal::default(),
            reading: Traversal::default(),
            read_by: None,
            sieve: Sieve::default(),
            evicted: VecDeque::new(),
            push_policy: PushPolicy::new(config.policy, seed),
            forgettable: VecDeque::new(),
            listed: VecDeque::new(),
            learnt: 0,
            learnt_before: 0,
            versions: Versions::default(),
            refresh: Refresh::new(),
            version_reports: VersionReports::new(&config.forest, config.rank),
            woken: VecDeque::new(),
            fresh: VecDeque::new(),
            outputs: VecDeque::new(),
            stats: Stats::default(),
            config,
        };
        node.reroute(0);
        node
    }

    /// Takes an input in.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.now = now;
        match input {
            Input::Request { client, path, want } => self.request(client, path, want),
            Input::Preload { client, path, want } => self.preload(client, path, want),
            Input::RequestBlock { client, path, block } => self.request_block(client, path, block),
            Input::Used { path, block } => self.used(now, &path, block),
            Input::ClientGone { client } => self.client_gone(client),
            Input::PeerUp { peer } => self.peer_up(now, peer),
            Input::PeerDown { peer } => self.peer_down(now, peer),
            Input::Corrupt { from, transfer } => self.corrupt(now, from, transfer),
            Input::CorruptContent { from, path } => self.corrupt_content(now, from, path),
            Input::Digested { path, aspect, digest } => self.digested(&path, aspect, digest),
            Input::Message { from, message } => self.message(now, from, message),
            Input::ChunkSent { to } => self.chunk_sent(to),
            Input::FactRead { path, aspect, fact } => self.fact_read(now, path, aspect, fact),
            Input::DetailsRead { path, details } => self.details_read(now, &path, details),
            Input::FileOpened { path, aspect, head } => self.file_opened(now, path, aspect, head),
            Input::FileRead { path, aspect, position } => self.file_read(now, &path, aspect, position),
            Input::FileFailed { path, aspect, errno } => self.file_failed(now, &path, aspect, errno),
            Input::StoreFailed { path, block } => self.store_failed(now, &path, block),
            Input::EvictRefused { path } => self.evict_refused(now, &path),
            Input::Room { store_bytes_max } => self.set_room(store_bytes_max),
            Input::Clear { path, subtree, after } => self.clear(&path, subtree, after.as_ref()),
            Input::Refresh { request, paths } => self.refresh_requested(request, paths),
            Input::GenerationFailed { changes } => self.generation_failed(changes),
            Input::GenerationGone { generation } => self.generation_gone(generation),
        }
        self.settle(now);
    }

    /// The next thing to do, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Node::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.pending.deadline().into_iter().chain(self.parents_due()).min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        for key in self.pending.overdue(now, self.config.limits.request_timeout_ms_max) {
            self.give_up(now, &key);
        }
        self.watch_parents(now);
        self.settle(now);
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        Stats {
            entries: self.entries.len() as u64,
            store_bytes: self.sieve.bytes(),
            store_files: self.sieve.files() as u64,
            ..self.stats
        }
    }

    /// How much it keeps of what others cause. Takes time in proportion to what it knows.
    pub fn load(&self) -> Load {
        let orphans = self.entries.paths().filter_map(|path| self.entries.get(path)).map(Entry::orphans).sum();
        Load {
            clients: self.clients.len(),
            pending: self.pending.len(),
            waiting: self.pending.waiting_most(),
            outgoing: self.children.values().map(Child::transfers).max().unwrap_or_default(),
            incoming: self.parents.values().map(|parent| parent.incoming.len()).max().unwrap_or_default(),
            orphans,
            reads_waiting: self.reads_waiting.len(),
            forgettable: self.forgettable.len(),
            listed: self.listed.len(),
            unreported: self.unreported_most(),
        }
    }

    /// Follows up on what the input changed, until nothing is left to do.
    fn settle(&mut self, now: Time) {
        loop {
            if let Some(waiter) = self.woken.pop_front() {
                match waiter {
                    Waiter::Client(client) => self.resume(now, client),
                    Waiter::Child(want) => self.serve(now, want),
                }
            } else if let Some(thing) = self.fresh.pop_front() {
                if !self.children.is_empty() && self.push_policy.pushes_new(now) {
                    self.push_to_all(&thing);
                }
            } else if let Some(path) = self.downloads.pop_front() {
                self.download_blocks(now, &path);
            } else if !self.start_read() && !self.start_batch(now) && !self.continue_checking() {
                break;
            }
        }
        self.forget_some();
        self.report_versions();
        self.hang_up_idle();
        let (in_flight_max, next) = (self.config.limits.chunks_in_flight_max, &mut self.next_transfer);
        let undigested = self.children.pump(&self.entries, in_flight_max, next, &mut self.outputs);
        self.ask_digests(undigested);
    }

    fn request(&mut self, client: ClientId, path: Path, want: Want) {
        assert!(!self.clients.contains_key(&client), "a client's number is used once");
        self.stats.requests += 1;
        if want.contains(Want::UNAUDITED) {
            self.begin_unaudited(None);
            return self.reply(client, Reply::Done);
        }
        if self.scope.start(path.as_bytes()).is_none() {
            return self.reply(client, Reply::Fallback);
        }
        if want.contains(Want::PASSTHROUGH) {
            self.request_passthrough(&path, want);
            return self.reply(client, Reply::Done);
        }
        if self.clients.len() >= self.config.limits.clients_waiting_max {
            return self.reply(client, Reply::Fallback);
        }
        self.admit(client, path, want, None);
    }

    /// Lets a client wait for what it wants.
    fn admit(&mut self, id: ClientId, path: Path, want: Want, block: Option<u32>) {
        let client = Client { path, want, block, counted: None, waits_for: None, is_ahead: false, rounds: 0 };
        self.clients.insert(id, Box::new(client));
        self.woken.push_back(Waiter::Client(id));
    }

    fn client_gone(&mut self, client: ClientId) {
        if let Some(gone) = self.clients.remove(&client)
            && let Some(ask) = gone.waits_for.and_then(|key| self.pending.get_mut(&key))
        {
            ask.clients.remove(&client);
        }
    }

    /// Takes a client's request as far as knowledge goes.
    fn resume(&mut self, now: Time, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.waits_for = None;
        client.rounds += 1;
        if client.rounds > ROUNDS_MAX {
            return self.finish(id, Reply::Fallback);
        }
        let (path, want) = (client.path.clone(), client.want);
        let block = client.block;
        match (self.map().walk(&path, want).step, block) {
            (Step::Done, None) if want.contains(Want::DETAILS) && self.waits_for_details(now, id, &path) => {}
            (Step::Done, None) => self.finish(id, Reply::Done),
            (Step::Done, Some(block)) => self.resume_block(now, id, &path, block),
            (Step::Missing(path, aspect), _) => {
                self.ask(now, path.clone(), aspect, Waiter::Client(id));
                self.count(now, id, &path, aspect);
            }
        }
    }

    /// Counts what a client lacks, each thing once: from several of one kind follows what to ask ahead.
    fn count(&mut self, now: Time, id: ClientId, path: &Path, aspect: Aspect) {
        if let Some(client) = self.clients.get_mut(&id)
            && (client.is_ahead || client.counted.replace(aspect) == Some(aspect))
        {
            return;
        }
        match aspect {
            Aspect::Entry => self.note_lookup(now, path),
            Aspect::Loadable | Aspect::Whole => self.note_content(now, path, aspect),
            Aspect::Listing | Aspect::Details | Aspect::Block(_) => {}
        }
    }

    fn finish(&mut self, id: ClientId, reply: Reply) {
        match self.clients.remove(&id) {
            Some(client) if client.is_ahead => self.outputs.push_back(Output::Reply { client: id, reply }),
            Some(_) => self.reply(id, reply),
            None => {}
        }
    }

    fn reply(&mut self, client: ClientId, reply: Reply) {
        self.stats.fallbacks += u64::from(reply == Reply::Fallback);
        self.outputs.push_back(Output::Reply { client, reply });
    }

    fn publish(&mut self, publication: Publication) {
        self.outputs.push_back(Output::Publish(publication));
    }

    fn map(&self) -> Map<'_> {
        Map {
            entries: &self.entries,
            scope: &self.scope,
            passthrough: &self.passthrough,
            links_followed_max: self.config.limits.links_followed_max,
        }
    }
}
