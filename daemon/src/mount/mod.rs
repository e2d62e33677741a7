//! The mounted file system: one more client of the node.
//!
//! Workers read the kernel's requests and answer from the shared table, without a lock that anybody
//! holds for long and without a message. What the table lacks is asked of the node, and the request
//! is parked meanwhile: no thread waits for it. When the node has answered, the request is served
//! again from its start.

mod ahead;
mod caller;
mod change;
mod content;
mod counters;
mod desk;
mod directory;
mod forget;
mod generation;
mod nodes;
mod notifier;
mod original;
mod originals;
mod serve;
mod tables;
pub(crate) mod view;
pub(crate) mod worker;

#[cfg(fuzzing)]
pub use self::original::fuzz_journal;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headwater_abi::Path;
use headwater_fuse::Device;
use headwater_proto::Input;
use mio::Waker;

use self::ahead::Ahead;
pub(crate) use self::desk::{Asked, Mount};
pub(crate) use self::notifier::Notice;
pub(crate) use self::tables::OlderTable;
use self::view::{Parts, View, Wanted};
use crate::config::Config;
use crate::event_loop::Daemon;
use crate::process::inherited_devices;
use headwater_store::Blocks;
use headwater_store::Table;

/// Serves the mount that `config` speaks of, if it does. `older` generations have open files.
pub(crate) fn start(
    config: &Config,
    table: &mut Table,
    older: Vec<OlderTable>,
    scope: &[(bool, Path)],
    blocks: Arc<Blocks>,
    waker: &Arc<Waker>,
) -> io::Result<Option<Mount>> {
    let Some(mount) = &config.mount else { return Ok(None) };
    let devices: Vec<Device> = inherited_devices(&mount.devices)?.into_iter().map(Device::from_fd).collect();
    if config.recover
        && let Err(error) = devices[0].resend()
    {
        tracing::warn!(%error, "the kernel can't repeat what a predecessor left unanswered");
    }
    let parts = Parts {
        reader: table.reader(),
        older,
        store: config.dir().root(),
        scope: scope.to_vec(),
        blocks,
        whole_file_bytes_max: config.whole_file_bytes_max,
        has_originals: !config.is_standing,
    };
    let mut view = View::new(mount, parts).map_err(io::Error::other)?;
    if !config.recover {
        view.ahead = Ahead::of_new_connection();
        view.originals.first = original::First::of_new_connection();
        // Of another connection's nodes; mostly there is none.
        let _ = std::fs::remove_file(config.dir().moves());
    }
    view.has_live_trees.store(config.recover, Ordering::Relaxed);
    if let Err(error) = view.originals.note_in(&view, &config.dir().moves()) {
        tracing::warn!(%error, "what is renamed or removed while it is in use is not noted for a successor");
    }
    // The kernel never forgets the root.
    if table.record(&view.root) {
        view.hold(&view.root);
    }
    Mount::start(view, devices, Arc::clone(waker)).map(Some)
}

impl Daemon {
    /// Does what a worker of the mount wants.
    pub(crate) fn asked(&mut self, asked: Asked) {
        let now = self.now();
        let Some(mount) = &mut self.mount else { return };
        match asked {
            Asked::Wanted(Wanted::Want(path, want), parked) => {
                let client = self.client_ids.next();
                mount.keep(now, client, parked);
                self.feed(Input::Request { client, path, want });
            }
            Asked::Wanted(Wanted::Block(path, block), parked) => {
                let client = self.client_ids.next();
                mount.keep(now, client, parked);
                self.feed(Input::RequestBlock { client, path, block });
            }
            // No thread asks for patience, and the event loop does not ask itself.
            Asked::Wanted(Wanted::Patience, parked) => mount.resume(parked, false),
            Asked::Wanted(Wanted::Generation, parked) => mount.hold_parked(now, parked),
            Asked::Used(path, block) => self.feed(Input::Used { path, block }),
            Asked::Wanted(Wanted::Record(path), parked) => {
                let is_there = mount.number(&mut self.table, path);
                mount.resume(parked, is_there);
            }
            Asked::Interrupted(unique) => {
                if let Some(client) = mount.interrupt(now, unique) {
                    self.feed(Input::ClientGone { client });
                }
            }
        }
    }
}
