//! Properties of what a node stores: it is bounded.

use headwater_proto::Rank;

use crate::site::Site;
use crate::violation::{Check, ensure};
use crate::world::World;

impl World {
    /// Checks that a store is within its limit; if the limit was reduced, that the store does not grow.
    pub(crate) fn check_room(&mut self, rank: Rank) -> Check {
        if self.options.evict_refusal > 0 {
            // Content in use stays.
            return Ok(());
        }
        let site = self.site_mut(rank);
        let bytes = site.node.stats().store_bytes;
        let bytes_max = site.store_bytes_max.max(site.store_bytes);
        site.store_bytes = bytes;
        ensure(bytes <= bytes_max, || format!("the store comes to {bytes} bytes, of {bytes_max}"))?;
        ensure(site.store.is_within(bytes), || format!("more than {bytes} bytes are in the store"))
    }

    /// Checks the limits of what a node stores on behalf of others.
    pub(crate) fn check_load(&self, rank: Rank) -> Check {
        let node = &self.site(rank).node;
        let (load, limits) = (node.load(), &self.limits);
        let bounds = [
            ("requests wait", load.clients, limits.clients_waiting_max),
            ("requests are pending", load.pending, limits.pending_max),
            ("requests of children wait for one thing", load.waiting, 1 << 16),
            ("pieces go to one child", load.outgoing, limits.transfers_max),
            ("pieces come from one parent", load.incoming, limits.transfers_max),
            ("pieces have lost their sender", load.orphans, load.pending),
            ("files are to be read", load.reads_waiting, 2 * limits.pending_max + 64),
            ("paths may be forgotten", load.forgettable, 2 * limits.entries_max + 64),
            ("directories may be forgotten", load.listed, 2 * limits.entries_max + 64),
            ("versions are to be reported", load.unreported, 1 << 16),
        ];
        let exceeded = bounds.iter().find(|(_, count, max)| count > max);
        ensure(exceeded.is_none(), || {
            exceeded.map_or_else(String::new, |(what, count, max)| format!("{count} {what}, of {max}"))
        })
    }

    /// Checks that a store is within its limit once nothing more arrives.
    pub(super) fn check_given_up(&self, site: &Site) -> Check {
        let (bytes, bytes_max) = (site.node.stats().store_bytes, site.store_bytes_max);
        let fits = self.options.evict_refusal > 0 || bytes <= bytes_max;
        ensure(fits, || format!("{bytes} bytes stay in the store, of {bytes_max}"))
    }
}
