//! What this node did, for the summary.

use super::Daemon;
use crate::report::{Clients, Memory, Overlay, Report};
use crate::session::status_bytes;

impl Daemon {
    /// What this daemon and its node's processes did.
    pub(crate) fn report(&self) -> Report {
        let traffic = self.links.traffic();
        Report {
            shared_fs: self.readers.counts(),
            overlay: Overlay {
                messages: traffic.messages,
                bytes: traffic.bytes,
                fabric_bytes: traffic.carried_bytes,
                mismatches: self.timeline.mismatches,
            },
            tcp_instead: self.links.tcp_instead().map(str::to_owned),
            depth: self.depth,
            clients: self.generations.clients(&self.dir).unwrap_or_else(|error| {
                tracing::warn!(%error, "the processes' counters can't be read; the summary shows none");
                Clients::default()
            }),
            mount: self.mount.as_ref().map(headwater_mount::Mount::report).unwrap_or_default(),
            preload: self.preloading.report(),
            memory: Memory {
                store_bytes: self.store.bytes(),
                replica_bytes: self.store.replica_bytes(),
                table_bytes: self.table.bytes(),
                daemon_rss_max: rss_max().unwrap_or(0),
            },
            first_byte_unix_ms: self.timeline.first_byte,
            last_file_unix_ms: self.timeline.last_file,
        }
    }
}

/// The largest resident set so far, in bytes.
fn rss_max() -> Option<u64> {
    status_bytes("VmHWM:")
}
