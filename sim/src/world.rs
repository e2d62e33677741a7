//! The run: events in the order of their time, nodes and their drivers, faults.

mod drive;
mod workload;

use std::collections::BTreeMap;

use headwater_abi::wire::Message;
use headwater_abi::{Attr, Path};
use headwater_proto::{ClientId, Config, Input, Limits, Node, Output, Policy, Rank, Topology};

use crate::check::{Check, ensure};
use crate::random::Random;
use crate::reader::Piece;
use crate::site::Site;
use crate::tree::Tree;
use crate::{Options, Summary, Violation};

/// Events after which a run counts as one that never ends.
const EVENTS_MAX: u64 = 3_000_000;

/// Something that will happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// Something on a node itself.
    Local(Rank, Box<Input>),
    /// A message reaches its peer, unless its link was lost meanwhile.
    Deliver { from: Rank, to: Rank, link: u64, packet: Packet },
    /// A chunk has been handed to the network.
    ChunkSent { from: Rank, to: Rank, link: u64 },
    /// A node notices that a link was lost.
    LinkLost { at: Rank, peer: Rank, link: u64 },
    /// A link is set up again.
    Connect(Rank),
    /// The reader comes one step further.
    ReadStep { rank: Rank, piece: Piece, number: u64 },
    /// A node's timeout may be due.
    Timer(Rank),
    /// A process starts to ask.
    Request { must_succeed: bool },
    /// A file changes on the shared file system, or vanishes.
    Change,
    /// A node dies.
    Death,
}

/// What travels.
#[derive(Debug)]
pub(crate) enum Packet {
    Hello,
    Message(Box<Message>),
}

/// The link from a rank to its parent.
#[derive(Debug, Default)]
struct Wire {
    /// Counts the times that it was set up.
    number: u64,
    is_up: bool,
    /// When the last message arrives: upwards, downwards.
    last: [u64; 2],
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) options: Options,
    pub(crate) random: Random,
    pub(crate) tree: Tree,
    /// The tree as it was before each change.
    pub(crate) past: Vec<Tree>,
    pub(crate) versions: BTreeMap<Path, Attr>,
    topology: Topology,
    pub(crate) limits: Limits,
    scope: Vec<(bool, Path)>,
    sites: Vec<Site>,
    /// By child rank.
    wires: Vec<Wire>,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    next_client: u64,
    /// Paths that a program of many processes asks for, one after the other.
    script: Vec<(Path, headwater_abi::Want)>,
    script_at: BTreeMap<Rank, usize>,
    pub(crate) summary: Summary,
}

impl World {
    pub(crate) fn new(seed: u64, options: &Options) -> World {
        let mut random = Random::new(seed);
        let nodes = if random.chance(200) { 1 } else { 1 + random.below(options.nodes_max.into()) as u32 };
        let topology = Topology::new(nodes, 1 + random.below(8) as u32);
        let tree = Tree::random(&mut random);
        let mut scope = vec![(true, Path::new(b"/sw").expect("an absolute path"))];
        if random.chance(200) {
            let paths: Vec<Path> = tree.paths().cloned().collect();
            scope.push((false, random.pick(&paths[1..]).clone()));
        }
        let limits = random_limits(&mut random, options);
        let policy = *random.pick(&[Policy::Push, Policy::Pull, Policy::Adaptive]);
        let site = |rank| {
            let config = Config { rank: Rank(rank), topology, session: 1, policy, limits, scope: scope.clone() };
            Site::new(Node::new(config, seed ^ u64::from(rank)))
        };
        World {
            seed,
            options: options.clone(),
            sites: (0..nodes).map(site).collect(),
            wires: (0..nodes).map(|_| Wire::default()).collect(),
            random,
            tree,
            past: Vec::new(),
            versions: BTreeMap::new(),
            topology,
            limits,
            scope,
            now: 0,
            events: BTreeMap::new(),
            next_event: 0,
            next_client: 0,
            script: Vec::new(),
            script_at: BTreeMap::new(),
            summary: Summary { nodes, ..Summary::default() },
        }
    }

    /// Faults first, then none; then what can be had must be had.
    pub(crate) fn run(mut self) -> Result<Summary, Violation> {
        self.plan_workload();
        self.drain()?;
        self.stop_faults();
        for rank in 1..self.sites.len() as u32 {
            self.schedule(10, Event::Connect(Rank(rank)));
        }
        self.drain()?;
        self.check_end()?;
        self.now += 2000;
        self.plan_epilogue();
        self.drain()?;
        self.check_end()?;
        for site in &self.sites {
            let stats = site.node.stats();
            self.summary.evictions += stats.evictions;
            self.summary.pushes += stats.pushes;
            self.summary.fallbacks += stats.fallbacks;
            self.summary.changed += stats.changed;
        }
        Ok(self.summary)
    }

    /// Lets everything happen that is planned.
    fn drain(&mut self) -> Result<(), Violation> {
        let mut count = 0;
        while let Some(((at, _), event)) = self.events.pop_first() {
            self.now = self.now.max(at);
            count += 1;
            let rank = self.rank_of(&event);
            let result = ensure(count < EVENTS_MAX, || "the run does not end".into());
            result.and_then(|()| self.happen(event)).map_err(|what| self.violation(rank, what))?;
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), Violation> {
        for (rank, site) in self.sites.iter().enumerate().filter(|(_, site)| site.is_alive) {
            if let Some((client, waiting)) = site.waiting.iter().next() {
                let what = format!("client {} waits forever for {} ({:?})", client.0, waiting.path, waiting.want);
                return Err(self.violation(Rank(rank as u32), what));
            }
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Check {
        match event {
            Event::Local(rank, input) => self.local(rank, *input),
            Event::Deliver { from, to, link, packet } => self.deliver(from, to, link, packet),
            Event::ChunkSent { from, to, link } => self.chunk_sent(from, to, link),
            Event::LinkLost { at, peer, link } => self.link_lost(at, peer, link),
            Event::Connect(rank) => {
                self.connect(rank);
                Ok(())
            }
            Event::ReadStep { rank, piece, number } => self.read_step(rank, &piece, number),
            Event::Timer(rank) => self.timer(rank),
            Event::Request { must_succeed } => self.request(must_succeed),
            Event::Change => self.change(),
            Event::Death => self.death(),
        }
    }

    /// Gives an input to a node and performs what it puts out.
    pub(crate) fn give(&mut self, rank: Rank, input: Input) -> Check {
        if !self.site(rank).is_alive {
            return Ok(());
        }
        self.trace(rank, || format!("<- {input:?}"));
        let now = self.now;
        self.site_mut(rank).node.handle(now, input);
        self.perform_all(rank)
    }

    fn perform_all(&mut self, rank: Rank) -> Check {
        // A refused eviction is told before anything else is.
        while let Some(output) = self.site_mut(rank).node.poll_output() {
            self.trace(rank, || format!("-> {output:?}"));
            if let Output::Evict { path } = &output
                && self.is_in_use(path)
            {
                self.site_mut(rank).refused.push_back(path.clone());
                self.summary.faults += 1;
                continue;
            }
            self.perform(rank, output)?;
        }
        while let Some(path) = self.site_mut(rank).refused.pop_front() {
            self.give(rank, Input::EvictRefused { path })?;
        }
        let (now, max) = (self.now, self.limits.store_bytes_max);
        let site = self.site_mut(rank);
        if let Some(due) = site.node.poll_timeout()
            && site.timer.is_none_or(|timer| timer > due)
        {
            site.timer = Some(due);
            self.schedule(due.saturating_sub(now), Event::Timer(rank));
        }
        let bytes = self.site(rank).store.bytes();
        ensure(bytes <= max || self.options.evict_refusal > 0, || format!("{bytes} bytes are in a store of {max}"))
    }

    /// Some files are in use now and then, others all the time.
    fn is_in_use(&mut self, path: &Path) -> bool {
        let refusal = self.options.evict_refusal;
        let mut steady = Random::new(self.seed ^ headwater_abi::hash::bytes(path.as_bytes()));
        steady.chance(refusal) || self.random.chance(refusal)
    }

    fn timer(&mut self, rank: Rank) -> Check {
        let now = self.now;
        let site = self.site_mut(rank);
        site.timer = None;
        if !site.is_alive {
            return Ok(());
        }
        if site.node.poll_timeout().is_some_and(|due| due <= now) {
            site.node.handle_timeout(now);
        }
        self.perform_all(rank)
    }

    pub(crate) fn schedule(&mut self, after: u64, event: Event) {
        self.next_event += 1;
        self.events.insert((self.now + after, self.next_event), event);
    }

    pub(crate) fn site(&self, rank: Rank) -> &Site {
        &self.sites[rank.0 as usize]
    }

    pub(crate) fn site_mut(&mut self, rank: Rank) -> &mut Site {
        &mut self.sites[rank.0 as usize]
    }

    pub(crate) fn in_scope(&self, path: &Path) -> bool {
        let matching = self.scope.iter().filter(|(_, directory)| path.is_within(directory));
        matching.max_by_key(|(_, directory)| directory.as_bytes().len()).is_some_and(|&(included, _)| included)
    }

    fn next_client(&mut self) -> ClientId {
        self.next_client += 1;
        ClientId(self.next_client)
    }

    fn rank_of(&self, event: &Event) -> Rank {
        match event {
            Event::Local(rank, _) | Event::Connect(rank) | Event::Timer(rank) => *rank,
            Event::Deliver { to, .. } => *to,
            Event::ChunkSent { from, .. } => *from,
            Event::LinkLost { at, .. } => *at,
            Event::ReadStep { rank, .. } => *rank,
            Event::Request { .. } | Event::Change | Event::Death => Rank::ROOT,
        }
    }

    fn violation(&self, rank: Rank, what: String) -> Violation {
        Violation { seed: self.seed, at_ms: self.now, rank: rank.0, what }
    }

    fn trace(&self, rank: Rank, what: impl FnOnce() -> String) {
        if self.options.trace {
            println!("{:6} n{} {}", self.now, rank.0, what());
        }
    }
}

fn random_limits(random: &mut Random, options: &Options) -> Limits {
    let store_bytes_max = match random.below(4) {
        0 | 1 if options.small_stores => 1 << 20,
        2 if options.small_stores => 20 << 20,
        _ => 1 << 30,
    };
    let forgets = random.chance(300);
    Limits {
        facts_max: if forgets { 24 + random.below(30) as usize } else { usize::MAX },
        listing_bytes_max: if forgets { random.below(4000) } else { u64::MAX },
        ahead_files_max: random.below(3) as usize * 20,
        blocks_ahead_max: random.below(4) as u32,
        store_bytes_max,
        chunks_in_flight_max: 1 + random.below(4) as usize,
        reads_in_flight_max: 1 + random.below(4) as usize,
        request_timeout_ms_max: 2000 + random.below(3000),
        ..Limits::default()
    }
}
