//! What the kernel has to be told: new names after a generation has begun, and whether it knows of changes.

use headwater_abi::wire::Fact;
use headwater_abi::{Path, Want};
use headwater_proto::Input;

use super::Daemon;

impl Daemon {
    /// Has the node told when the kernel has forgotten what it has to. An audited process reads the table each time.
    pub(crate) fn settle_kernel(&mut self, number: u32) {
        match &mut self.frontends.mount {
            Some(mount) => mount.settle(number),
            None => self.driver.inbox.push_back(Input::Settled { number }),
        }
    }

    /// Requests the listings of these directories.
    pub(crate) fn relist(&mut self, directories: Vec<Path>) {
        for path in directories {
            let client = self.frontends.client_ids.next();
            self.content.generations.settling.insert(path.clone(), client);
            self.driver.inbox.push_back(Input::Request { client, path, want: Want::LISTING });
        }
    }

    /// Notifies the kernel of a directory's new names. Call it before the fact is published.
    pub(crate) fn learned(&mut self, path: &Path, fact: &Fact) {
        if !self.content.generations.settling.contains_key(path) {
            return;
        }
        let Some(mount) = &self.frontends.mount else { return };
        match fact {
            Fact::Listing(_, listing) => {
                let before = self.content.generations.older.iter().rev().map(|older| older.table.reader());
                let before = before.filter_map(|reader| reader.find(path.as_bytes())?.names()).next();
                let is_new = |name: &[u8]| before.is_none_or(|before| before.find(name).flatten().is_none());
                mount.names_came(path, listing.iter().map(|name| name.name).filter(|name| is_new(name)));
            }
            // Without a listing any name may be new.
            _ => mount.any_name_came(),
        }
    }

    /// Returns true while notifications of the kernel are pending.
    pub(crate) fn is_settling(&self) -> bool {
        !self.content.generations.settling.is_empty()
            || self.frontends.mount.as_ref().is_some_and(|mount| mount.is_notifying())
    }
}
