//! Events of the mount's workers.

use headwater_mount::{Demand, WorkerEvent};
use headwater_proto::Input;

use super::Daemon;

impl Daemon {
    /// Handles an event of a worker.
    pub(crate) fn worker_event(&mut self, event: WorkerEvent) {
        let now = self.now();
        if let (Some(recorder), WorkerEvent::Demand(_, parked)) = (&mut self.housekeeping.recorder, &event)
            && let Some(began) = parked.began()
        {
            recorder.request_began(began);
        }
        let Some(mount) = &mut self.frontends.mount else { return };
        match event {
            WorkerEvent::Demand(Demand::Want(path, want), parked) => {
                let client = self.frontends.client_ids.next();
                mount.park(now, client, parked);
                self.feed(Input::Request { client, path, want });
            }
            WorkerEvent::Demand(Demand::Block(path, block), parked) => {
                let client = self.frontends.client_ids.next();
                mount.park(now, client, parked);
                self.feed(Input::RequestBlock { client, path, block });
            }
            // Only the event loop's own attempts need another thread, and `resume` handles those.
            WorkerEvent::Demand(Demand::BlockingThread, parked) => mount.resume(parked, false),
            WorkerEvent::Demand(Demand::Generation, parked) => mount.wait_for_generation(now, parked),
            WorkerEvent::Settled(number) => {
                mount.settled(number);
                self.feed(Input::Settled { number });
            }
            WorkerEvent::Used(path, block) => self.feed(Input::Used { path, block }),
            WorkerEvent::Demand(Demand::Record(path), parked) => {
                let is_there = mount.number(&mut self.content.table, path);
                mount.resume(parked, is_there);
            }
            WorkerEvent::Interrupted(unique) => {
                if let Some(client) = mount.interrupt(now, unique) {
                    self.feed(Input::ClientGone { client });
                }
            }
        }
    }
}
