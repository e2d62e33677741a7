//! What the recorder of `--report` gets from the daemon's parts.

use std::path::Path;

use headwater_proto::{Output, Reply};
use headwater_report::job::{SharedReads, Snapshot};

use super::Daemon;
use crate::recorder::{Resolved, kind_of};

impl Daemon {
    /// Records an output that is about to be executed.
    pub(super) fn record_output(&mut self, output: &Output) {
        let Some(recorder) = &mut self.housekeeping.recorder else { return };
        recorder.output(output);
        let Output::Reply { client, reply } = *output else { return };
        let Some((path, want)) = recorder.waiting(client) else { return };
        let resolved = (reply == Reply::Done).then(|| {
            let (path, fact) = self.driver.node.known(&path, want);
            Resolved { kind: fact.and_then(kind_of), path }
        });
        recorder.replied(client, resolved);
    }

    /// Records the node's state, at intervals.
    pub(crate) fn record_state(&mut self) {
        let Some(recorder) = self.housekeeping.recorder.as_mut().filter(|recorder| recorder.wants_snapshot()) else {
            return;
        };
        let traffic = self.content.links.traffic();
        recorder.snapshot(Snapshot {
            store_bytes: self.content.store.bytes(),
            sent_bytes: traffic.bytes,
            received_bytes: traffic.bytes_received,
            shared_fs_bytes: self.content.readers.counts().bytes_read,
            ..Snapshot::default()
        });
    }

    /// Writes all records. If that fails, the report lacks this node.
    pub(crate) fn write_records(&mut self, to: &Path) {
        let Some(recorder) = self.housekeeping.recorder.take() else { return };
        let mut part = recorder.finish(|path| self.content.store.copy_bytes(path));
        let counts = self.content.readers.counts();
        part.shared_fs = SharedReads {
            files: counts.files_read,
            directories: counts.directories_read,
            bytes: counts.bytes_read,
            operations: counts.operations,
        };
        let written = part.json().map_err(std::io::Error::other).and_then(|json| std::fs::write(to, json));
        if let Err(error) = written {
            tracing::warn!(%error, "what this node did can't be written and is missing in the report; more memory or space under --store helps");
        }
    }
}
