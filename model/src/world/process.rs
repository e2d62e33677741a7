//! Processes. All of a node do the same at the same time: the first sends a request, and all are answered.

use headwater_proto::{ClientId, Input, Reply};

use super::shard::{Shard, compute};
use crate::queue::Event;

impl Shard<'_> {
    /// Computes up to the next look-up, and past those that the table answers.
    pub(super) fn set_out(&mut self, site: u32, at_ns: u64) {
        let (program, lookup_ns) = (self.program, self.costs.lookup);
        let mut at_ns = at_ns;
        loop {
            let Some(step) = program.steps.get(self.at(site).step) else {
                let end = self.computed(at_ns, program.after_ns);
                return self.end_process(site, end);
            };
            at_ns = self.computed(at_ns, step.before_ns);
            let it = self.at(site);
            if !is_known(&it.known, step.bit) {
                return self.plan(site, at_ns, Event::Step(site));
            }
            at_ns += lookup_ns;
            it.step += 1;
        }
    }

    /// Handles the arrival at a look-up that was unknown when the processes set out.
    pub(super) fn reach_step(&mut self, site: u32) {
        let (program, at_ns) = (self.program, self.now_ns + self.costs.lookup);
        let it = self.at(site);
        let Some(step) = program.steps.get(it.step) else { return };
        if is_known(&it.known, step.bit) {
            it.step += 1;
            return self.set_out(site, at_ns);
        }
        let at_ns = self.work(site, at_ns, self.costs.request);
        let it = self.at(site);
        it.is_asking = true;
        let client = ClientId(it.step as u64);
        self.pass_input(site, at_ns, Input::Request { client, path: step.path.clone(), want: step.want });
    }

    /// Handles the node's answer.
    pub(super) fn replied(&mut self, site: u32, at_ns: u64, reply: Reply) -> u64 {
        let program = self.program;
        let it = self.at(site);
        debug_assert!(it.is_asking, "only requests are answered");
        (it.is_asking, it.is_answered) = (false, true);
        let step = &program.steps[it.step];
        if reply == Reply::Done {
            let object = program.find(&step.path).filter(|object| step.is_content() && it.direct.contains(object));
            return object.map_or(at_ns, |_| self.read_directly(site, at_ns));
        }
        self.fallbacks += 1;
        self.storage.operate(at_ns, &step.path, step.operation(), self.world.machine.processes.into())
    }

    /// Has a node's processes read a large file from the shared file system. The node's kernel caches it: one of them
    /// transfers it. Returns when they have it.
    fn read_directly(&mut self, site: u32, at_ns: u64) -> u64 {
        let program = self.program;
        let it = self.at(site);
        let step = &program.steps[it.step];
        it.known[step.bit as usize / 64] |= 1 << (step.bit % 64);
        let opened = self.storage.operate(at_ns, &step.path, step.operation(), self.world.machine.processes.into());
        self.direct_bytes += step.size;
        self.storage.read(opened, step.size)
    }

    /// Continues with processes that were answered, once all other effects of the answer are done.
    pub(super) fn continue_if_answered(&mut self, site: u32, at_ns: u64) {
        let at_ns = at_ns + self.costs.lookup;
        let it = self.at(site);
        if std::mem::take(&mut it.is_answered) {
            it.step += 1;
            self.set_out(site, at_ns);
        }
    }

    /// Returns when all processes of a node have computed for so long.
    fn computed(&mut self, at_ns: u64, ns: u64) -> u64 {
        let machine = self.world.machine;
        let (processes, cores) = (u64::from(machine.processes), u64::from(machine.network.node.cores));
        if self.cores.is_empty() {
            return at_ns + ns * processes.div_ceil(cores);
        }
        (0..processes).map(|_| compute(&mut self.cores, at_ns, ns)).max().unwrap_or(at_ns)
    }
}

fn is_known(known: &[u64], bit: u32) -> bool {
    known[bit as usize / 64] >> (bit % 64) & 1 == 1
}
