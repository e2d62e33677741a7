//! Starting to serve a mount.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headwater_fuse::Device;
use headwater_store::Table;
use mio::Waker;

use crate::config::Start;
use crate::dispatcher::Mount;
use crate::source_file::kept::KeptPages;
use crate::source_file::served::ServedNodes;
use crate::view::View;

impl Start<'_> {
    /// Serves from `table` on `devices`, the connection once for each worker. `waker` is woken when the event loop has something to do.
    ///
    /// # Errors
    /// A directory of the mount is no absolute path, or a thread can't be started.
    pub fn serve(mut self, devices: Vec<Device>, table: &mut Table, waker: &Arc<Waker>) -> io::Result<Mount> {
        let (recover, moves, has_other_nodes) = (self.recover, self.moves.clone(), self.has_other_nodes);
        if recover && let Err(error) = devices[0].resend() {
            tracing::warn!(%error, "the kernel can't resend the requests that the previous daemon left unanswered");
        }
        let locks = std::mem::take(&mut self.locks);
        let mut view = View::new(self, table.reader()).map_err(io::Error::other)?;
        if !recover {
            view.source_files.served = ServedNodes::of_new_connection();
            // The journal of another connection, if there is one.
            let _ = std::fs::remove_file(&moves);
        }
        view.source_files.kept = KeptPages::new(has_other_nodes, recover);
        view.has_passthrough_trees.store(recover, Ordering::Relaxed);
        if let Err(error) = view.source_files.note_in(&view.tables, &moves) {
            tracing::warn!(%error, "the journal can't be opened: files that are renamed or removed while in use will be lost if the daemon is killed");
        }
        // The kernel never forgets the root.
        if table.record(&view.tables.root) {
            view.tables.count_lookup(&view.tables.root);
        }
        Mount::start(view, devices, locks, Arc::clone(waker))
    }
}
