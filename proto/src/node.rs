//! One node's decisions.

mod ahead;
mod block;
mod cached;
mod compare;
mod content;
mod details;
mod direct;
mod downstream;
mod forget;
mod large;
mod learn;
mod parents;
mod peers;
mod preload;
mod refresh;
mod requests;
mod restore;
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
use crate::state::confirm::{Asker, Confirmations, Place};
use crate::state::direct::DirectReading;
use crate::state::parent::Parent;
use crate::state::refresh::Refresh;
use crate::stored::StoredContent;
use crate::timeouts::AdaptiveTimeouts;
use crate::topology::Up;
use crate::transfer::{Child, Children};
use crate::traversal::Traversal;
use crate::versions::{VersionReports, Versions};
use crate::walk::{Map, Step, Walked};
use crate::{ClientId, Config, Input, Load, Output, Publication, Rank, Reply, Stats, Time};

/// How often a request may wait. A path has fewer components and links; but if room is short, the next step
/// may evict or forget what one step has learnt.
const ROUNDS_MAX: u32 = 10_000;

/// The state machine of one node.
///
/// The driver passes inputs to [`Node::handle`] as they happen, then drains [`Node::poll_output`], and calls
/// [`Node::handle_timeout`] when [`Node::poll_timeout`] is due. It executes outputs in order, as far as a
/// process or a peer can observe it: a client that gets a reply sees all that was published before, and a
/// peer receives messages and chunks in the order of the outputs.
///
/// The driver guarantees:
/// - It answers each [`Output::ReadEntry`] and [`Output::ReadListing`] with one [`Input::FactRead`], an
///   [`Output::ReadDetails`] with one [`Input::DetailsRead`]; an [`Output::ReadFile`] with
///   [`Input::FileOpened`] and ascending [`Input::FileRead`]s up to the end of the content, or with
///   [`Input::FileFailed`] at any point. After an [`Output::Discard`] or an [`Input::StoreFailed`] of the
///   path, that read has no further input.
/// - [`Output::Discard`] removes what has arrived since the last publication of the path's content, or of one
///   block; what was published stays. The whole of a file that is partly stored (`have`, or an
///   [`Output::Receive`] of a path whose content is published) is written in place, and so is a block.
/// - It answers an [`Output::SendChunk`] or [`Output::SendContent`] with one [`Input::ChunkSent`], even if
///   the file was evicted and its bytes were not sent, unless the link goes down first.
/// - It answers a [`Publication::Arrived`] whose bytes can't be stored with [`Input::StoreFailed`], and
///   publishes neither it nor a further name of it.
/// - After [`Input::PeerDown`] there is no input from that link. An [`Output::Disconnect`] ends the link,
///   with or without a `PeerDown`.
/// - A [`ClientId`] is never used twice. The driver checks the `Hello` of a link before `PeerUp`.
///
/// The node guarantees:
/// - Each request gets exactly one [`Output::Reply`], unless its client goes away first.
/// - No publication about a path contradicts an earlier one.
/// - Only the root of a path's tree, or its successor, puts out reads of it. It reads each directory once,
///   opens each file once for each aspect, and does not probe names that a known listing lacks, unless
///   something fails, times out, is evicted or forgotten.
/// - No input from a peer makes it panic; it answers a breach of protocol with [`Output::Disconnect`].
#[derive(Debug)]
pub struct Node {
    config: Config,
    scope: Scope,
    entries: Entries,
    passthrough: PassthroughPaths,
    confirmations: Confirmations,
    /// Programs run that don't announce their changes.
    is_unaudited: bool,
    pending: PendingRequests,
    clients: BTreeMap<ClientId, Box<Client>>,
    /// What failed lately, and when. Content fails as a whole.
    failed: BTreeMap<Key, Time>,
    /// The time of the input that is being handled.
    now: Time,
    /// The next hop in each tree; `None` in trees without this node.
    ups: Vec<Option<Up>>,
    parents: BTreeMap<Rank, Parent>,
    timeouts: AdaptiveTimeouts,
    /// Whether there may be a parent that is no longer needed.
    has_unwanted: bool,
    children: Children,
    /// Files whose block downloads have progressed.
    downloads: VecDeque<Path>,
    /// Content whose digest is being computed.
    digesting: BTreeSet<Key>,
    next_transfer: u64,
    /// Files to read, and those being read.
    reads_waiting: VecDeque<Key>,
    reads: BTreeMap<Piece, Aspect>,
    /// Content that is looked for in the node's cache, and what was not there.
    finding: BTreeMap<Piece, Aspect>,
    uncached: BTreeSet<Key>,
    /// Names to examine, as numbers in a directory's listing, and the number of batches in flight.
    batches_waiting: VecDeque<(Path, Range<usize>)>,
    batches_reading: usize,
    /// Complete content of files with several names.
    inodes: BTreeMap<Inode, Vec<Path>>,
    direct: DirectReading,
    traversal: Traversal,
    /// The directories whose files are read in order, and that order.
    reading: Traversal,
    read_by: Option<By>,
    sieve: Sieve,
    /// Content that was evicted lately, in case the store refuses.
    evicted: VecDeque<Evicted>,
    push_policy: PushPolicy,
    /// Paths in the order in which they may be forgotten, and directories that were listed.
    forgettable: VecDeque<Path>,
    listed: VecDeque<Path>,
    learnt: u32,
    /// The value of `learnt` at the last forgetting.
    learnt_before: u32,
    versions: Versions,
    refresh: Refresh,
    version_reports: VersionReports,
    /// Waiters whose request was answered.
    woken: VecDeque<Waiter>,
    /// What has become known and may have to be pushed.
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
    /// The path that needed the room.
    for_path: Path,
}

impl Node {
    /// Makes a node that knows nothing. `seed` seeds its random choices.
    pub fn new(config: Config, seed: u64) -> Node {
        let mut node = Node {
            scope: Scope::new(config.scope.clone()),
            entries: Entries::new(config.limits.entries_max),
            passthrough: PassthroughPaths::default(),
            confirmations: Confirmations::default(),
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
            finding: BTreeMap::new(),
            uncached: BTreeSet::new(),
            batches_waiting: VecDeque::new(),
            batches_reading: 0,
            inodes: BTreeMap::new(),
            direct: DirectReading::new(config.limits.compared_file_bytes_min, config.forest.ranks()),
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
        node.reroute();
        node
    }

    /// Handles an input.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.now = now;
        match input {
            Input::Request { client, path, want } => self.request(client, path, want),
            Input::Preload { client, path, want, block } => self.preload(client, path, want, block),
            Input::RequestBlock { client, path, block } => self.request_block(client, path, block),
            Input::Settled { number } => drop(self.confirmed(Place::Kernel, number)),
            Input::Used { path, block } => self.used(&path, block),
            Input::ClientGone { client } => self.client_gone(client),
            Input::PeerUp { peer } => self.peer_up(peer),
            Input::PeerDown { peer } => self.peer_down(peer),
            Input::ParentAbsent { rank } => self.parent_absent(rank),
            Input::Corrupt { from, transfer } => self.corrupt(from, transfer),
            Input::CorruptContent { from, path } => self.corrupt_content(from, path),
            Input::Digested { path, aspect, digest } => self.digested(&path, aspect, digest),
            Input::Message { from, message } => self.message(from, message),
            Input::ChunkSent { to } => self.chunk_sent(to),
            Input::FactRead { path, aspect, fact } => self.fact_read(path, aspect, fact),
            Input::DetailsRead { path, details } => self.details_read(&path, details),
            Input::FileOpened { path, aspect, head } => self.file_opened(path, aspect, head),
            Input::FileRead { path, aspect, position } => self.file_read(&path, aspect, position),
            Input::FileFailed { path, aspect, errno } => self.file_failed(&path, aspect, errno),
            Input::Cached { path, aspect, found } => self.cached(&path, aspect, found),
            Input::ReadTimed { path, us } => self.read_timed(&path, us),
            Input::StoreFailed { path, block } => self.store_failed(&path, block),
            Input::EvictRefused { path } => self.evict_refused(&path),
            Input::Room { store_bytes_max } => self.set_room(store_bytes_max),
            Input::Clear { path, subtree, after } => self.clear(&path, subtree, after.as_ref()),
            Input::Refresh { request, paths } => self.refresh_requested(request, paths),
            Input::GenerationFailed { changes } => self.generation_failed(changes),
            Input::GenerationGone { generation } => self.generation_gone(generation),
        }
        self.settle();
    }

    /// Returns the next output, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns when [`Node::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.pending.deadline().into_iter().chain(self.parents_due()).chain(self.confirmations.deadline()).min()
    }

    /// Handles the passing of time.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        for key in self.pending.overdue(now, self.config.limits.request_timeout_ms_max) {
            self.give_up(&key);
        }
        self.watch_parents();
        self.confirmations.overdue(now);
        self.answer_confirmed();
        self.settle();
    }

    /// Returns the counters.
    pub fn stats(&self) -> Stats {
        Stats {
            entries: self.entries.len() as u64,
            store_bytes: self.sieve.bytes(),
            store_files: self.sieve.files() as u64,
            ..self.stats
        }
    }

    /// Returns how much it stores on behalf of clients and peers. Takes time in proportion to what it knows.
    pub fn load(&self) -> Load {
        let orphans = self.entries.paths().filter_map(|path| self.entries.get(path)).map(Entry::orphans).sum();
        Load {
            clients: self.clients.len() + self.confirmations.len(),
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

    /// Processes what the input changed, until nothing is left to do.
    fn settle(&mut self) {
        self.decide_direct();
        loop {
            if let Some(waiter) = self.woken.pop_front() {
                match waiter {
                    Waiter::Client(client) => self.resume(client),
                    Waiter::Child(want) => self.serve(want),
                }
            } else if let Some(thing) = self.fresh.pop_front() {
                if !self.children.is_empty() && self.push_policy.pushes_new(self.now) {
                    self.push_to_all(&thing);
                }
            } else if let Some(path) = self.downloads.pop_front() {
                self.download_blocks(&path);
            } else if !self.start_read() && !self.start_batch() && !self.continue_checking() {
                break;
            }
        }
        self.forget_some();
        self.report_versions();
        self.hang_up_idle();
        let (in_flight_max, next) = (self.config.limits.chunks_in_flight_max, &mut self.next_transfer);
        let undigested = self.children.pump(&self.entries, in_flight_max, next, &mut self.outputs);
        self.request_digests(undigested);
    }

    fn request(&mut self, client: ClientId, path: Path, want: Want) {
        assert!(!self.clients.contains_key(&client), "a client's number is used once");
        self.stats.requests += 1;
        if want.contains(Want::UNAUDITED) {
            self.begin_unaudited(None);
            return self.confirm(Asker::Client(client));
        }
        if self.scope.start(path.as_bytes()).is_none() {
            return self.reply(client, Reply::Fallback);
        }
        if want.contains(Want::PASSTHROUGH) {
            self.request_passthrough(&path, want);
            return self.confirm(Asker::Client(client));
        }
        if self.clients.len() >= self.config.limits.clients_waiting_max {
            return self.reply(client, Reply::Fallback);
        }
        self.admit(client, path, want, None);
    }

    /// Lets a client wait for what it needs.
    fn admit(&mut self, id: ClientId, path: Path, want: Want, block: Option<u32>) {
        let client = Client { path, want, block, counted: None, waits_for: None, is_ahead: false, rounds: 0 };
        self.clients.insert(id, Box::new(client));
        self.woken.push_back(Waiter::Client(id));
    }

    fn client_gone(&mut self, client: ClientId) {
        self.confirmations.forget_client(client);
        if let Some(gone) = self.clients.remove(&client)
            && let Some(request) = gone.waits_for.and_then(|key| self.pending.get_mut(&key))
        {
            request.clients.remove(&client);
        }
    }

    /// Advances a client's request as far as the known facts allow.
    fn resume(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.waits_for = None;
        client.rounds += 1;
        if client.rounds > ROUNDS_MAX {
            return self.finish(id, Reply::Fallback);
        }
        let (path, want) = (client.path.clone(), client.want);
        let block = client.block;
        let Walked { step, path: reached } = self.map().walk(&path, want);
        match (step, block) {
            (Step::Done, None) if want.contains(Want::DETAILS) && self.waits_for_details(id, &path) => {}
            (Step::Done, None) => {
                self.leave_unstored(&reached, want);
                self.finish(id, Reply::Done);
            }
            (Step::Done, Some(block)) => self.resume_block(id, &path, block),
            (Step::Missing(path, aspect), _) if self.answer_directly(id, &path, aspect) => {}
            (Step::Missing(path, aspect), _) if self.serve_in_mount(id, &path, aspect) => {}
            (Step::Missing(path, aspect), _) => {
                self.wait_for(path.clone(), aspect, Waiter::Client(id));
                let key = (path, aspect);
                self.compare(&key);
                self.count(id, &key.0, aspect);
            }
        }
    }

    /// Counts what a client lacks, each thing once: several of one kind start reading ahead.
    fn count(&mut self, id: ClientId, path: &Path, aspect: Aspect) {
        if let Some(client) = self.clients.get_mut(&id)
            && (client.is_ahead || client.counted.replace(aspect) == Some(aspect))
        {
            return;
        }
        match aspect {
            Aspect::Entry => self.note_lookup(path),
            Aspect::Loadable | Aspect::Whole => self.note_content(path, aspect),
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
            stored: &self.config.limits.stored,
        }
    }
}
