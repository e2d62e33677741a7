//! What the mounted file system's workers want of the node.

use headwater_mount::{Asked, Wanted};
use headwater_proto::Input;

use super::Daemon;

impl Daemon {
    /// Does what a worker of the mount wants.
    pub(crate) fn asked(&mut self, asked: Asked) {
        let now = self.now();
        let Some(mount) = &mut self.frontends.mount else { return };
        match asked {
            Asked::Wanted(Wanted::Want(path, want), parked) => {
                let client = self.frontends.client_ids.next();
                mount.keep(now, client, parked);
                self.feed(Input::Request { client, path, want });
            }
            Asked::Wanted(Wanted::Block(path, block), parked) => {
                let client = self.frontends.client_ids.next();
                mount.keep(now, client, parked);
                self.feed(Input::RequestBlock { client, path, block });
            }
            // No thread asks for patience, and the event loop does not ask itself.
            Asked::Wanted(Wanted::Patience, parked) => mount.resume(parked, false),
            Asked::Wanted(Wanted::Generation, parked) => mount.hold_parked(now, parked),
            Asked::Used(path, block) => self.feed(Input::Used { path, block }),
            Asked::Wanted(Wanted::Record(path), parked) => {
                let is_there = mount.number(&mut self.content.table, path);
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
