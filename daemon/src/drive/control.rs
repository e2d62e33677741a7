//! Executes commands of the control socket.

use headwater_mount::{Count, Mount};
use headwater_proto::Time;
use mio::Token;

use super::Daemon;
use crate::control_socket::protocol::{Answer, Command};
use crate::control_socket::stats::{Bytes, Hits, Holds, LinkStats, MemoryNow, NodeStats, OperationStats, Role};
use crate::process::own_size;

/// The operation of requests from processes under audit.
const REQUEST: &str = "request";

impl Daemon {
    /// Executes the command of the connection `token`, or begins to.
    pub(crate) fn control(&mut self, now: Time, token: Token, command: Command) {
        let answer = match command {
            Command::Stats => Some(Answer::Stats(Box::new(self.stats(now)))),
            Command::Report => {
                // After a seal, the list is of use only once it is complete.
                if self.housekeeping.beyond.is_none() {
                    self.write_used();
                }
                Some(Answer::Report(Box::new(self.report())))
            }
            Command::Clear(targets) => self.clear(now, token, targets),
            Command::Refresh(paths) => self.refresh(token, &paths),
        };
        if let Some(answer) = answer {
            self.frontends.control_socket.answer(now, token, answer);
        }
    }

    fn stats(&self, now: Time) -> NodeStats {
        let (node, traffic, shared_fs) =
            (self.driver.node.stats(), self.content.links.traffic(), self.content.readers.counts());
        let clients = self.content.generations.clients(&self.content.dir).unwrap_or_default();
        let operations = self.operations();
        let (store_max, store_max_configured) = self.housekeeping.pressure.store_bytes_max();
        let upcalls = || operations.iter().filter(|operation| operation.name != REQUEST);
        let hits = Hits {
            upcalls: upcalls().map(|operation| operation.count).sum(),
            table: clients.answered_by_table + upcalls().map(|operation| operation.from_table).sum::<u64>(),
            parent: self.housekeeping.timeline.from_parent,
            reader: self.housekeeping.timeline.from_reader,
            original: clients.fallbacks + upcalls().map(|operation| operation.from_original).sum::<u64>(),
        };
        NodeStats {
            generation: self.content.dir.generation(),
            is_settling: self.is_settling(),
            generations_kept: self.content.generations.older.len() as u64,
            uptime_ms: now,
            links: self.links(now),
            mismatches: self.housekeeping.timeline.mismatches,
            hits,
            bytes: Bytes {
                store: node.store_bytes,
                store_max,
                store_max_configured,
                sent: traffic.bytes,
                sent_by_fabric: traffic.carried_bytes,
                received: traffic.bytes_received,
                shared_fs: shared_fs.bytes_read,
            },
            holds: Holds { files: node.store_files, entries: node.entries, evictions: node.evictions },
            memory: MemoryNow {
                daemon_rss: own_size("VmRSS:").unwrap_or(0),
                table: self.content.table.bytes(),
                store: self.content.store.bytes(),
            },
            clients,
            tcp_instead: self.content.links.tcp_instead().map(str::to_owned),
            interface_failure: self.content.links.interface_failure().map(str::to_owned),
            preload: self.housekeeping.preloading.report(),
            shared_fs,
            changed: self.housekeeping.changes.clone(),
            operations,
            ..self.frontends.about.clone()
        }
    }

    fn links(&self, now: Time) -> LinkStats {
        let links = &self.content.links;
        let forest = links.forest();
        LinkStats::of(links, &self.frontends.names, |rank| Role::of(forest, rank), now)
    }

    fn operations(&self) -> Vec<OperationStats> {
        let counts = [(REQUEST, self.frontends.clients.answered().clone())].into_iter();
        let counts = counts.chain(self.frontends.mount.iter().flat_map(Mount::counted));
        let operation = |(name, count): (&str, Count)| OperationStats {
            name: name.into(),
            count: count.requests(),
            from_table: count.from_table,
            asked: count.asked,
            from_original: count.from_original,
            errors: count.errors,
            bytes: count.bytes,
            latency: (&count.latency).into(),
        };
        counts.map(operation).filter(|operation| operation.count > 0).collect()
    }
}
