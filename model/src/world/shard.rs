//! A part of the nodes, and their events.

use headwater_proto::Input;

use super::session::World;
use super::site::{Mail, Packet, Site};
use crate::outcome::{Outcome, Part};
use crate::parameters::{Network, us};
use crate::program::Program;
use crate::queue::{Event, Moment, Queue, Slab};
use crate::storage::Storage;
use crate::wires::Wires;

/// Nanoseconds of processor time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) receive: u64,
    pub(super) send: u64,
    pub(super) receive_per_kb: u64,
    pub(super) send_per_kb: u64,
    pub(super) publish: u64,
    pub(super) request: u64,
    pub(super) lookup: u64,
    pub(super) socket_bytes: u64,
    pub(super) reader_threads: u32,
    /// Time from a message's arrival to the first packet that it causes, at least.
    pub(super) reaction: u64,
}

/// A part of the nodes.
#[derive(Debug)]
pub(crate) struct Shard<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) program: &'a Program,
    pub(super) number: u32,
    pub(super) first: u32,
    pub(super) costs: Costs,
    pub(super) sites: Vec<Site>,
    pub(super) wires: Wires,
    pub(super) storage: Storage,
    pub(super) queue: Queue,
    pub(super) packets: Slab<Packet>,
    /// Packets for other shards.
    pub(super) outgoing: Vec<Mail>,
    /// When each core of the one machine is free, if all nodes share it.
    pub(super) cores: Vec<u64>,
    pub(super) now_ns: u64,
    pub(super) messages: u64,
    pub(super) fallbacks: u64,
    pub(super) direct_bytes: u64,
    pub(super) ended: u32,
}

impl Costs {
    fn new(network: &Network, processes: u32) -> Costs {
        let daemon = &network.daemon;
        let begins = us(daemon.receive_us).min(us(network.node.lookup_us));
        Costs {
            reaction: begins + us(daemon.send_us) + us(network.latency_us),
            receive: us(daemon.receive_us),
            send: us(daemon.send_us),
            receive_per_kb: us(daemon.receive_us_per_mb / 1e3),
            send_per_kb: us(daemon.send_us_per_mb / 1e3),
            publish: us(daemon.publish_us),
            request: us(daemon.request_us * f64::from(processes)),
            lookup: us(network.node.lookup_us),
            socket_bytes: daemon.socket_bytes,
            reader_threads: daemon.reader_threads,
        }
    }
}

impl<'a> Shard<'a> {
    pub(super) fn new(world: &'a World<'a>, program: &'a Program, number: u32, (first, end): (u32, u32)) -> Shard<'a> {
        let network = &world.machine.network;
        let members = &world.crowd.members;
        let node = &network.node;
        Shard {
            world,
            program,
            number,
            first,
            costs: Costs::new(network, world.machine.processes),
            sites: members[first as usize..end as usize].iter().map(|&rank| Site::new(world, program, rank)).collect(),
            wires: Wires::new(network, world.forest.ranks(), members),
            storage: Storage::new(&world.machine.file_system),
            queue: Queue::default(),
            packets: Slab::default(),
            outgoing: world.firsts.iter().map(|_| Vec::new()).collect(),
            cores: vec![0; if node.one_machine { node.cores as usize } else { 0 }],
            now_ns: 0,
            messages: 0,
            fallbacks: 0,
            direct_bytes: 0,
            ended: 0,
        }
    }

    /// Sets up all links and starts the processes.
    pub(super) fn begin(&mut self) {
        for site in self.first..self.first + self.sites.len() as u32 {
            self.link_up(site);
            match self.at(site).rank < self.world.forest.servers() {
                true => self.end_process(site, 0),
                false => self.set_out(site, 0),
            }
        }
    }

    pub(super) fn run_until(&mut self, before_ns: u64) {
        while let Some((at_ns, event)) = self.queue.next(before_ns) {
            self.now_ns = at_ns;
            match event {
                Event::Arrival(packet) => self.arrive(packet),
                Event::Step(site) => self.reach_step(site),
                Event::Card(site) => self.turn(site),
                Event::Read(site, read) => self.continue_reading(site, read),
                Event::Timer(site) => self.time_out(site),
            }
        }
    }

    /// Returns the time before which nothing that happens here reaches another shard.
    pub(super) fn reaches_ns(&self) -> u64 {
        let latency = us(self.world.machine.network.latency_us);
        let reaches = self.queue.next_ns().into_iter().zip([latency, self.costs.reaction]);
        reaches.filter_map(|(next, after)| Some(next? + after.max(1))).min().unwrap_or(u64::MAX)
    }

    /// Returns the processes' progress.
    pub(super) fn done(&self) -> f64 {
        let steps: usize = self.sites.iter().map(|site| site.step).sum();
        steps as f64 / (self.sites.len() * self.program.steps.len()).max(1) as f64
    }

    pub(super) fn finish(self) -> Part {
        let servers = self.world.forest.servers();
        let ends_ns = self.sites.iter().filter(|site| site.rank >= servers).filter_map(|site| site.ended_ns).collect();
        let outcome = Outcome {
            counts: self.storage.counts,
            messages: self.messages,
            fallbacks: self.fallbacks,
            direct_bytes: self.direct_bytes,
            events: self.queue.planned,
            simulated: self.sites.len() as u32,
            ..Outcome::default()
        };
        Part { ends_ns, outcome }
    }

    /// Takes another shard's packet.
    pub(super) fn take_from_afar(&mut self, moment: Moment, mut packet: Packet) {
        assert!(moment.at_ns >= self.now_ns, "what comes from afar has not been passed by");
        packet.messages.iter_mut().for_each(|message| self.program.make_own(message));
        self.take(moment, packet);
    }

    /// Takes a packet in transit.
    pub(super) fn take(&mut self, moment: Moment, packet: Packet) {
        let packet = self.packets.insert(packet);
        self.queue.plan(moment, Event::Arrival(packet));
    }

    pub(super) fn at(&mut self, site: u32) -> &mut Site {
        &mut self.sites[(site - self.first) as usize]
    }

    /// Returns the time of an event that a site plans.
    pub(super) fn moment(&mut self, site: u32, at_ns: u64) -> Moment {
        let it = self.at(site);
        it.planned = it.planned.wrapping_add(1);
        Moment { at_ns, planner: site, count: it.planned }
    }

    pub(super) fn plan(&mut self, site: u32, at_ns: u64, event: Event) {
        let moment = self.moment(site, at_ns);
        self.queue.plan(moment, event);
    }

    /// Keeps a site's daemon busy for so long, from this time or when it is free. Returns the end.
    pub(super) fn work(&mut self, site: u32, at_ns: u64, ns: u64) -> u64 {
        let begin = at_ns.max(self.at(site).free_ns);
        let end = compute(&mut self.cores, begin, ns);
        self.at(site).free_ns = end;
        end
    }

    /// Passes an input to a node when its daemon is free.
    pub(super) fn pass_input(&mut self, site: u32, at_ns: u64, input: Input) {
        self.at(site).node.handle(at_ns / 1_000_000, input);
        self.execute_all(site, at_ns);
    }

    pub(super) fn end_process(&mut self, site: u32, at_ns: u64) {
        self.at(site).ended_ns = Some(at_ns);
        self.ended += 1;
    }

    fn time_out(&mut self, site: u32) {
        let now_ns = self.now_ns;
        let it = self.at(site);
        if it.timer_ns != now_ns {
            return;
        }
        it.timer_ns = u64::MAX;
        if it.node.poll_timeout().is_some_and(|due| due <= now_ns / 1_000_000) {
            it.node.handle_timeout(now_ns / 1_000_000);
        }
        self.execute_all(site, now_ns);
    }

    /// Plans the node's timeout, if it is not planned.
    pub(super) fn set_timer(&mut self, site: u32) {
        let now_ns = self.now_ns;
        let it = self.at(site);
        let Some(due) = it.node.poll_timeout() else { return };
        let due_ns = due.saturating_mul(1_000_000).max(now_ns + 1);
        if due_ns < it.timer_ns {
            it.timer_ns = due_ns;
            self.plan(site, due_ns, Event::Timer(site));
        }
    }
}

/// Returns the end of so much computing, on the one machine's cores if there are such.
pub(super) fn compute(cores: &mut [u64], at_ns: u64, ns: u64) -> u64 {
    match cores.iter_mut().min() {
        Some(free) if ns > 0 => {
            *free = at_ns.max(*free) + ns;
            *free
        }
        _ => at_ns + ns,
    }
}
