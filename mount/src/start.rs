//! Starting to serve a mount.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headwater_abi::Path;
use headwater_fuse::Device;
use headwater_store::{Blocks, Table};
use mio::Waker;

use crate::config::MountConfig;
use crate::dispatcher::Mount;
use crate::source_file::served::ServedNodes;
use crate::state::tables::OlderTable;
use crate::view::{Parts, View};

/// The parts from which a mount is served.
pub struct Start<'a> {
    /// The file system, after INIT.
    pub mount: &'a MountConfig,
    /// Its connection, once for each worker.
    pub devices: Vec<Device>,
    /// Descriptors that this process may have open.
    pub descriptors_max: usize,
    /// Continue from a predecessor.
    pub recover: bool,
    /// The mirror's prefix.
    pub store: PathBuf,
    /// The journal of renamed and removed files that are in use.
    pub moves: PathBuf,
    /// Included and excluded directories.
    pub scope: Vec<(bool, Path)>,
    /// Tables of older generations that the kernel may still use nodes of, in order.
    pub older: Vec<OlderTable>,
    /// Files of which some blocks are in the store.
    pub blocks: Arc<Blocks>,
    /// Larger files are fetched in blocks.
    pub whole_file_bytes_max: u64,
    /// True if this machine can read the source files.
    pub has_source: bool,
}

impl Start<'_> {
    /// Serves from `table`; `waker` is woken when the event loop has something to do.
    ///
    /// # Errors
    /// A directory of the mount is no absolute path, or a thread can't be started.
    pub fn serve(self, table: &mut Table, waker: &Arc<Waker>) -> io::Result<Mount> {
        let Start { mount, devices, recover, moves, .. } = self;
        if recover && let Err(error) = devices[0].resend() {
            tracing::warn!(%error, "the kernel can't resend the requests that the previous daemon left unanswered");
        }
        let parts = Parts {
            reader: table.reader(),
            older: self.older,
            store: self.store,
            scope: self.scope,
            blocks: self.blocks,
            whole_file_bytes_max: self.whole_file_bytes_max,
            has_source: self.has_source,
            descriptors_max: self.descriptors_max / 8,
        };
        let mut view = View::new(mount, parts).map_err(io::Error::other)?;
        if !recover {
            view.source_files.served = ServedNodes::of_new_connection();
            // The journal of another connection, if there is one.
            let _ = std::fs::remove_file(&moves);
        }
        view.has_passthrough_trees.store(recover, Ordering::Relaxed);
        if let Err(error) = view.source_files.note_in(&view.tables, &moves) {
            tracing::warn!(%error, "the journal can't be opened: files that are renamed or removed while in use will be lost if the daemon is killed");
        }
        // The kernel never forgets the root.
        if table.record(&view.tables.root) {
            view.tables.count_lookup(&view.tables.root);
        }
        Mount::start(view, devices, Arc::clone(waker))
    }
}
