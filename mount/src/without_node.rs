//! Serving without a node: from the table, the store and the source files.

use std::time::Duration;

use headwater_abi::Want;
use headwater_store::Table;

use crate::call::Demand;
use crate::dispatcher::Mount;
use crate::worker::WorkerEvent;

/// How often the connection is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl Mount {
    /// Serves all requests without a node until the file system is unmounted.
    pub fn serve_from_source(&mut self, table: &mut Table) {
        for (_, parked) in std::mem::take(&mut self.waiting) {
            self.resume(parked, false);
        }
        while self.connection.devices[0].is_connected() {
            let Some(WorkerEvent::Demand(wanted, parked)) = self.next_within(CHECK_INTERVAL) else { continue };
            let is_known = match &wanted {
                Demand::Record(path) => table.record(path),
                Demand::Want(path, want) if want.contains(Want::PASSTHROUGH) => {
                    table.set_passthrough(path, want.contains(Want::TREE));
                    true
                }
                Demand::Want(..) | Demand::Block(..) | Demand::BlockingThread | Demand::Generation => false,
            };
            self.resume(parked, is_known);
        }
    }
}
