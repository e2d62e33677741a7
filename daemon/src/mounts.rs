//! The mounted file system as one more client of the node.

use std::io;
use std::sync::Arc;

use headwater_abi::Path;
use headwater_fuse::Device;
use headwater_mount::{Asked, Mount, OlderTable, Start, Wanted};
use headwater_proto::Input;
use headwater_store::{Blocks, Table};
use mio::Waker;

use crate::config::Config;
use crate::event_loop::Daemon;
use crate::process::{descriptors_max, inherited_devices};

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
    let devices = inherited_devices(&mount.devices)?.into_iter().map(Device::from_fd).collect();
    Start {
        mount,
        devices,
        descriptors_max: descriptors_max(),
        recover: config.recover,
        store: config.dir().root(),
        moves: config.dir().moves(),
        scope: scope.to_vec(),
        older,
        blocks,
        whole_file_bytes_max: config.whole_file_bytes_max,
        has_originals: !config.is_standing,
    }
    .serve(table, waker)
    .map(Some)
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
