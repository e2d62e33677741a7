//! The run: events in the order of their time, nodes and their drivers, faults.

mod drive;
mod faults;
mod links;
mod reading;
mod wire;
mod workload;

use std::collections::{BTreeMap, BTreeSet};

use headwater_abi::wire::{Aspect, FileHead};
use headwater_abi::{Attr, Path, Want};
use headwater_proto::topology::Branching;
use headwater_proto::{ClientId, Config, Forest, Input, Limits, Node, Output, Policy, Rank, Shape, TreeId};

use self::wire::{Ends, Wire};
use crate::random::Random;
use crate::reader::Piece;
use crate::site::Site;
use crate::tree::Tree;
use crate::violation::{Check, ensure};
use crate::{Options, Summary, Violation};

/// Events after which a run counts as one that never ends.
const EVENTS_MAX: u64 = 600_000;
/// A node's load is checked after one in so many events.
const LOAD_EVERY: u64 = 32;

#[derive(Debug)]
pub(crate) enum Event {
    /// An input of a node itself, in one of its lives.
    Local(Rank, u64, Box<Input>),
    /// The first message on its way arrives, unless the link was lost meanwhile.
    Deliver { ends: Ends, direction: usize, number: u64 },
    /// A chunk has been handed to the network.
    ChunkSent { ends: Ends, number: u64 },
    /// One end notices that a link was lost.
    LinkLost { ends: Ends, end: usize, number: u64 },
    /// A node tries to link to another.
    Dial { ends: Ends, life: u64 },
    /// The time for the other's greeting has passed.
    GreetingDue { ends: Ends, number: u64 },
    /// The reader advances by one step.
    ReadStep { rank: Rank, life: u64, piece: Piece, number: u64 },
    /// A digest is computed.
    Digest { rank: Rank, life: u64, path: Path, aspect: Aspect, head: Box<FileHead> },
    /// A node's timeout may be due.
    Timer(Rank, u64),
    /// A node's store may still exceed its limit.
    Room(Rank, u64),
    /// A node starts.
    Start(Rank),
    /// A process sends a request.
    Request { must_succeed: bool },
    /// A fault, or a user's action.
    Fault(Fault),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A file changes on the shared file system, or vanishes.
    Change,
    Death,
    Pause,
    Partition,
    Lie,
    /// A user requests a refresh.
    Refresh,
    /// A store's limit changes.
    Room,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) options: Options,
    /// Whether there are no faults from the beginning.
    pub(crate) is_calm: bool,
    /// The same, but for changes that the program makes.
    pub(crate) is_undisturbed: bool,
    pub(crate) random: Random,
    pub(crate) tree: Tree,
    /// The tree as it was before each change.
    pub(crate) past: Vec<Tree>,
    /// Paths with other facts before.
    pub(crate) changed: BTreeSet<Path>,
    /// The published version of each path, by generation.
    pub(crate) versions: BTreeMap<(u64, Path), Attr>,
    /// The processes that have read from the shared file system: rank and life.
    pub(crate) readers: BTreeSet<(Rank, u64)>,
    pub(crate) forest: Forest,
    pub(crate) limits: Limits,
    policy: Policy,
    scope: Vec<(bool, Path)>,
    pub(crate) sites: Vec<Site>,
    wires: BTreeMap<Ends, Wire>,
    /// Each rank's side of a partition, and its end.
    sides: Vec<bool>,
    parted_until: u64,
    pub(crate) now: u64,
    /// The node of the last event.
    at: Rank,
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    next_client: u64,
    next_refresh: u64,
    /// Paths that a program of many processes requests, one after the other.
    script: Vec<(Path, Want)>,
    script_at: BTreeMap<Rank, usize>,
    pub(crate) summary: Summary,
}

impl World {
    pub(crate) fn new(seed: u64, trace: bool) -> World {
        let mut random = Random::new(seed);
        let options = Options { trace, ..Options::drawn(&mut random) };
        let nodes = if random.chance(100) { 1 } else { 1 + random.below(options.nodes_max.into()) as u32 };
        let forest = random_forest(&mut random, nodes);
        let tree = Tree::random(&mut random);
        let mut scope = vec![(true, Path::new(b"/sw").expect("an absolute path"))];
        if random.chance(200) {
            let paths: Vec<Path> = tree.paths().cloned().collect();
            scope.push((false, random.pick(&paths[1..]).clone()));
        }
        let limits = random_limits(&mut random, &options);
        let policy = *random.pick(&[Policy::Push, Policy::Pull, Policy::Adaptive]);
        let config = |rank| Config { rank, forest, session: 1, policy, limits, scope: scope.clone() };
        let sites = (0..nodes).map(|rank| Site::new(Node::new(config(Rank(rank)), 0))).collect();
        World {
            seed,
            is_calm: options.is_calm(),
            is_undisturbed: Options { passthrough: 0, ..options.clone() }.is_calm(),
            options,
            random,
            tree,
            past: Vec::new(),
            changed: BTreeSet::new(),
            versions: BTreeMap::new(),
            readers: BTreeSet::new(),
            forest,
            limits,
            policy,
            scope,
            sites,
            wires: BTreeMap::new(),
            sides: vec![false; nodes as usize],
            parted_until: 0,
            now: 0,
            at: Rank::ROOT,
            events: BTreeMap::new(),
            next_event: 0,
            next_client: 0,
            next_refresh: 0,
            script: Vec::new(),
            script_at: BTreeMap::new(),
            summary: Summary { runs: 1, nodes, ..Summary::default() },
        }
    }

    /// Runs faults first, then none; then what can succeed must succeed.
    pub(crate) fn run(mut self) -> Result<Summary, Violation> {
        self.trace(Rank::ROOT, || format!("{:?} {:?} {:?} {:?}", self.options, self.forest, self.policy, self.limits));
        self.plan_workload();
        self.run_for(self.options.duration_ms)?;
        self.stop_faults().map_err(|what| self.violation(self.at, what))?;
        self.run_for(self.settling_ms())?;
        self.check_settled()?;
        self.plan_epilogue();
        self.run_for(self.options.duration_ms + self.limits.request_timeout_ms_max + 1000)?;
        self.check_settled()?;
        for site in &self.sites {
            let stats = site.node.stats();
            self.summary.evictions += stats.evictions;
            self.summary.pushes += stats.pushes;
            self.summary.fallbacks += stats.fallbacks;
            self.summary.changed += stats.changed;
        }
        Ok(self.summary)
    }

    /// Returns how long recovery may take after the last fault.
    fn settling_ms(&self) -> u64 {
        let dead = self.sites.iter().filter(|site| !site.is_alive).count() as u64;
        let Limits { request_timeout_ms_max, parent_absence_ms_max, starting_ms_max, .. } = self.limits;
        let lost_ms = parent_absence_ms_max + starting_ms_max + self.limits.silence_ms_max();
        (dead + 2) * lost_ms + self.limits.ban_ms + 2 * request_timeout_ms_max + 20_000
    }

    /// Runs the events of the next milliseconds.
    fn run_for(&mut self, ms: u64) -> Result<(), Violation> {
        let (end, mut count) = (self.now + ms, 0);
        while let Some(first) = self.events.first_entry()
            && first.key().0 <= end
        {
            let ((at, _), event) = first.remove_entry();
            self.now = self.now.max(at);
            count += 1;
            let rank = self.rank_of(&event);
            if let Some(rank) = rank
                && self.site(rank).paused_until > self.now
            {
                let after = self.site(rank).paused_until - self.now;
                self.schedule(after, event);
                continue;
            }
            let result = ensure(count < EVENTS_MAX, || "the run does not end".into());
            let result = result.and_then(|()| self.happen(event));
            let is_sample = count.is_multiple_of(LOAD_EVERY);
            let result = result.and_then(|()| if is_sample { self.check_load(self.at) } else { Ok(()) });
            result.map_err(|what| self.violation(self.at, what))?;
        }
        self.now = end;
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Check {
        match event {
            Event::Local(rank, life, input) if self.lives(rank, life) => self.local(rank, *input),
            Event::Deliver { ends, direction, number } => self.deliver(ends, direction, number),
            Event::ChunkSent { ends, number } => self.chunk_sent(ends, number),
            Event::LinkLost { ends, end, number } => self.link_lost(ends, end, number),
            Event::Dial { ends, life } if self.lives(ends.0, life) => {
                self.dial(ends);
                Ok(())
            }
            Event::GreetingDue { ends, number } => {
                self.greeting_due(ends, number);
                Ok(())
            }
            Event::ReadStep { rank, life, piece, number } if self.lives(rank, life) => {
                self.read_step(rank, &piece, number)
            }
            Event::Digest { rank, life, path, aspect, head } if self.lives(rank, life) => {
                self.digest(rank, path, aspect, &head)
            }
            Event::Timer(rank, life) if self.lives(rank, life) => self.timer(rank),
            Event::Room(rank, life) if self.lives(rank, life) => self.set_room(rank),
            Event::Start(rank) => self.start(rank),
            Event::Request { must_succeed } => self.request(must_succeed),
            Event::Fault(fault) => self.fault(fault),
            // Its node has died since.
            _ => Ok(()),
        }
    }

    /// Returns a node's limits: in some worlds, most nodes have mounts beside audit.
    fn limits_of(&self, rank: Rank) -> Limits {
        let has_mount = self.seed % 4 == 3 && rank.0 % 3 != 2;
        let mounted_file_bytes_min = if has_mount { MOUNTED_FILE_BYTES_MIN } else { u64::MAX };
        Limits { mounted_file_bytes_min, ..self.limits }
    }

    fn lives(&self, rank: Rank, life: u64) -> bool {
        self.site(rank).is_alive && self.site(rank).life == life
    }

    fn start(&mut self, rank: Rank) -> Check {
        if self.site(rank).is_alive {
            return Ok(());
        }
        let (forest, policy, limits) = (self.forest, self.policy, self.limits_of(rank));
        let config = Config { rank, forest, session: 1, policy, limits, scope: self.scope.clone() };
        let life = self.site(rank).life;
        let node = Node::new(config, self.seed ^ u64::from(rank.0) ^ (life << 32));
        let recovers = life > 0 && self.random.chance(self.options.recovery);
        let now = self.now;
        self.summary.restarts += u64::from(life > 0);
        self.summary.recoveries += u64::from(recovers);
        self.trace(rank, || format!("starts, recovers: {recovers}"));
        let bytes_max = self.limits.store_bytes_max;
        self.site_mut(rank).start(now, node, recovers, bytes_max);
        self.execute_all(rank)
    }

    /// Passes an input to a node and executes its outputs.
    pub(crate) fn pass_input(&mut self, rank: Rank, input: Input) -> Check {
        if !self.site(rank).is_alive {
            return Ok(());
        }
        self.trace(rank, || format!("<- {input:?}"));
        let now = self.now;
        let site = self.site_mut(rank);
        site.node.handle(now - site.started, input);
        self.execute_all(rank)
    }

    fn execute_all(&mut self, rank: Rank) -> Check {
        self.at = rank;
        // The node is notified of a refused eviction before anything else.
        while let Some(output) = self.site_mut(rank).node.poll_output() {
            self.trace(rank, || format!("-> {output:?}"));
            if let Output::Evict { path } = &output
                && self.is_in_use(path)
            {
                self.site_mut(rank).refused.push_back(path.clone());
                self.summary.faults += 1;
                continue;
            }
            self.execute(rank, output)?;
        }
        while let Some(path) = self.site_mut(rank).refused.pop_front() {
            self.pass_input(rank, Input::EvictRefused { path })?;
        }
        self.site_mut(rank).received_content = None;
        while let Some(path) = self.site_mut(rank).unstored.pop_front() {
            self.pass_input(rank, Input::StoreFailed { path, block: None })?;
        }
        let now = self.now;
        let site = self.site_mut(rank);
        if let Some(due) = site.node.poll_timeout().map(|due| due + site.started)
            && site.timer.is_none_or(|timer| timer > due)
        {
            site.timer = Some(due);
            let life = site.life;
            self.schedule(due.saturating_sub(now), Event::Timer(rank, life));
        }
        self.check_room(rank)?;
        let (entries, max) = (self.site(rank).node.stats().entries, self.limits.entries_max);
        ensure(entries <= max as u64, || format!("{entries} paths are known, of {max}"))
    }

    /// Returns whether a file is in use: some are at times, others always.
    fn is_in_use(&mut self, path: &Path) -> bool {
        let refusal = self.options.evict_refusal;
        let mut steady = Random::new(self.seed ^ headwater_abi::hash::bytes(path.as_bytes()));
        steady.chance(refusal) || self.random.chance(refusal)
    }

    fn timer(&mut self, rank: Rank) -> Check {
        let now = self.now;
        let site = self.site_mut(rank);
        site.timer = None;
        let now = now - site.started;
        if site.node.poll_timeout().is_some_and(|due| due <= now) {
            site.node.handle_timeout(now);
        }
        self.execute_all(rank)
    }

    pub(crate) fn schedule(&mut self, after: u64, event: Event) {
        self.next_event += 1;
        self.events.insert((self.now + after, self.next_event), event);
    }

    /// Plans an input of a node, for its present life.
    pub(crate) fn schedule_local(&mut self, after: u64, rank: Rank, input: Input) {
        let life = self.site(rank).life;
        self.schedule(after, Event::Local(rank, life, Box::new(input)));
    }

    pub(crate) fn site(&self, rank: Rank) -> &Site {
        &self.sites[rank.0 as usize]
    }

    pub(crate) fn site_mut(&mut self, rank: Rank) -> &mut Site {
        &mut self.sites[rank.0 as usize]
    }

    pub(crate) fn ranks(&self) -> impl Iterator<Item = (Rank, &Site)> {
        self.sites.iter().enumerate().map(|(rank, site)| (Rank(rank as u32), site))
    }

    pub(crate) fn in_scope(&self, path: &Path) -> bool {
        let matching = self.scope.iter().filter(|(_, directory)| path.is_within(directory));
        matching.max_by_key(|(_, directory)| directory.as_bytes().len()).is_some_and(|&(included, _)| included)
    }

    /// Returns the trees in one of which this is requested.
    pub(crate) fn homes(&self, rank: Rank, path: &Path, aspect: Aspect) -> Vec<TreeId> {
        if !self.forest.is_striped() {
            return self.forest.tree_ids().collect();
        }
        let named = if aspect == Aspect::Entry { path.parent() } else { None };
        let hash = headwater_abi::hash::bytes(named.as_ref().unwrap_or(path).as_bytes());
        let striped = aspect.block().filter(|&block| block >= self.limits.striped_block_min);
        vec![match striped {
            Some(block) => self.forest.tree_of_chunk(rank, hash, block.into()),
            None => self.forest.tree_of_path(rank, hash),
        }]
    }

    fn next_client(&mut self) -> ClientId {
        self.next_client += 1;
        ClientId(self.next_client)
    }

    /// Returns the node of an event, which may be paused.
    fn rank_of(&self, event: &Event) -> Option<Rank> {
        let end = |ends: &Ends, end: usize| if end == 0 { ends.0 } else { ends.1 };
        match event {
            Event::Local(rank, ..) | Event::Timer(rank, _) | Event::Room(rank, _) => Some(*rank),
            Event::ReadStep { rank, .. } | Event::Digest { rank, .. } => Some(*rank),
            Event::Deliver { ends, direction, .. } => Some(end(ends, 1 - direction)),
            Event::ChunkSent { ends, .. } => Some(ends.1),
            Event::LinkLost { ends, end: which, .. } => Some(end(ends, *which)),
            Event::Dial { ends, .. } | Event::GreetingDue { ends, .. } => Some(ends.0),
            Event::Start(_) | Event::Request { .. } | Event::Fault(_) => None,
        }
    }

    pub(crate) fn violation(&self, rank: Rank, what: String) -> Violation {
        Violation { seed: self.seed, at_ms: self.now, rank: rank.0, what }
    }

    pub(crate) fn trace(&self, rank: Rank, what: impl FnOnce() -> String) {
        if self.options.trace {
            println!("{:6} n{} {}", self.now, rank.0, what());
        }
    }
}

fn random_forest(random: &mut Random, nodes: u32) -> Forest {
    let servers = if random.chance(200) { 1 + random.below(3) as u32 } else { 0 };
    let branching = if random.chance(300) { Branching::Binomial } else { Branching::KAry(1 + random.below(8) as u32) };
    let shape = match random.below(10) {
        0..3 => Shape::Single(branching),
        3 => Shape::Partitioned { groups: 1 + random.below(4) as u32, branching },
        _ => Shape::Striped { trees: 2 + random.below(8) as u32, readers: 1 + random.below(4) as u32 },
    };
    Forest::new(nodes, servers.min(nodes - 1), shape)
}

/// Larger files are read in a node's mount, if it has one.
pub(crate) const MOUNTED_FILE_BYTES_MIN: u64 = 1_500;

fn random_limits(random: &mut Random, options: &Options) -> Limits {
    let is_small = options.is_small;
    let store_bytes_max = match random.below(4) {
        0 | 1 if is_small => 1 << 20,
        2 if is_small => 20 << 20,
        _ => 1 << 30,
    };
    let entries_max = if is_small && random.chance(300) { 20 + random.below(40) as usize } else { 1 << 17 };
    let forgets = random.chance(300);
    Limits {
        entries_max,
        pending_max: if is_small && random.chance(300) { 4 + random.below(60) as usize } else { 1 << 16 },
        transfers_max: if is_small && random.chance(300) { 2 + random.below(20) as usize } else { 1 << 17 },
        facts_max: if forgets { 24 + random.below(30) as usize } else { usize::MAX },
        listing_bytes_max: if forgets { random.below(4000) } else { u64::MAX },
        compared_file_bytes_min: if is_small && random.chance(300) { 100_000 } else { u64::MAX },
        ahead_files_max: random.below(3) as usize * 20,
        blocks_ahead_max: random.below(4) as u32,
        store_bytes_max,
        chunks_in_flight_max: 1 + random.below(4) as usize,
        reads_in_flight_max: 1 + random.below(4) as usize,
        request_timeout_ms_max: 2000 + random.below(3000),
        parent_absence_ms_max: if random.chance(300) { random.below(2000) } else { 0 },
        starting_ms_max: 1000 + random.below(9000),
        quiet_ms_max: 150 + random.below(300),
        probe_ms_max: 300 + random.below(1000),
        ban_ms: 500 + random.below(5000),
        piece_bytes_max: [1000, 50_000, 500_000, 2 << 20][random.below(4) as usize],
        blocks_downloading_max: 1 + random.below(4) as usize,
        striped_block_min: random.below(3) as u32,
        ..Limits::default()
    }
}
