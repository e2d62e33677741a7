//! The node's part of the summary.

use std::os::unix::ffi::OsStrExt;

use headwater_abi::Kind;
use headwater_abi::table::{Record, State};

use super::Daemon;
use crate::process::own_size;
use crate::recorded;
use crate::report::{Clients, LargeFiles, Memory, Overlay, Report};

impl Daemon {
    /// Returns the report of this daemon and its node's processes.
    pub(crate) fn report(&self) -> Report {
        let traffic = self.content.links.traffic();
        Report {
            shared_fs: self.content.readers.counts(),
            overlay: Overlay {
                messages: traffic.messages,
                bytes: traffic.bytes,
                fabric_bytes: traffic.carried_bytes,
                mismatches: self.housekeeping.timeline.mismatches,
            },
            tcp_instead: self.content.links.tcp_instead().map(str::to_owned),
            interface_failure: self.content.links.interface_failure().map(str::to_owned),
            depth: self.depth,
            clients: self.content.generations.clients(&self.content.dir).unwrap_or_else(|error| {
                tracing::warn!(%error, "the processes' counters can't be read; the summary shows none");
                Clients::default()
            }),
            mount: self.frontends.mount.as_ref().map(headwater_mount::Mount::report).unwrap_or_default(),
            preload: self.housekeeping.preloading.report(),
            cached: self.housekeeping.keeping.found,
            large: self.large_files(),
            memory: Memory {
                store_bytes: self.content.store.bytes(),
                replica_bytes: self.content.store.replica_bytes(),
                table_bytes: self.content.table.bytes(),
                daemon_rss_bytes_max: own_size("VmHWM:").unwrap_or(0),
            },
            first_byte_unix_ms: self.housekeeping.timeline.first_byte,
            last_file_unix_ms: self.housekeeping.timeline.last_file,
        }
    }

    /// Writes what processes used, if that is wanted; after a seal, what they used beyond it.
    pub(crate) fn write_used(&self) {
        let Some(path) = &self.housekeeping.record_to else { return };
        let lines = match &self.housekeeping.beyond {
            Some(beyond) => beyond.lines(|path| {
                let record = self.content.table.reader().find(path.as_os_str().as_bytes());
                record.is_some_and(|record| record.kind == Kind::File)
            }),
            None => recorded::lines(&self.content.table.reader(), &self.content.store.blocks()),
        };
        if let Err(error) = std::fs::write(path, lines) {
            tracing::debug!(%error, "what processes used is not recorded");
        }
    }

    fn large_files(&self) -> LargeFiles {
        let table = self.content.table.reader();
        let rates = self.driver.node.direct_rates();
        let limit = table.stored_file_bytes_max();
        let Some(stored_bytes_max) = limit.or(rates.map(|rates| rates.file_bytes_min)) else {
            return LargeFiles::default();
        };
        let is_large = |record: &Record<'_>| {
            let is_beyond = record.attr().is_some_and(|attr| attr.size > stored_bytes_max);
            record.kind == Kind::File && is_beyond && (limit.is_some() || record.state.contains(State::DIRECT))
        };
        LargeFiles {
            files: table.records().filter(is_large).count() as u64,
            stored_bytes_max,
            direct_bytes_per_ms: rates.map_or(0, |rates| rates.direct),
            trees_bytes_per_ms: rates.map_or(0, |rates| rates.trees),
        }
    }
}
