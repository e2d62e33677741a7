//! Begins and ends generations.

use std::collections::HashSet;
use std::io;

use headwater_abi::Path;
use headwater_abi::wire::Change;
use headwater_proto::{Input, Time};
use headwater_store::layout::NodeDir;
use headwater_store::{Table, is_in_use};

use super::Daemon;
use crate::generation::{Older, RETAINED_MS_MIN};
use crate::session::{create_counters, read_counters};

/// Older generations at once; beyond that the oldest end, and their processes use the source files.
const OLDER_MAX: usize = 16;
/// Interval at which the use of older generations is checked, in milliseconds.
const CHECK_MS: Time = 1_000;

impl Daemon {
    /// Begins a generation. If that fails, source files serve the changed paths.
    pub(crate) fn begin_generation(
        &mut self,
        generation: u64,
        changes: Option<&[Change]>,
        passthrough: &[(Path, bool)],
    ) {
        if let Err(error) = self.try_generation(generation, changes, passthrough) {
            tracing::warn!(generation, %error, "a generation can't be made: processes use the source files of changed paths. Make more space under --store");
            let _ = self.content.dir.of_generation(generation).remove_generation();
            if changes.is_none() {
                self.content.table.set_all_passthrough();
            }
            self.driver.inbox.push_back(Input::GenerationFailed { changes: changes.map(<[Change]>::to_vec) });
        }
    }

    fn try_generation(
        &mut self,
        generation: u64,
        changes: Option<&[Change]>,
        passthrough: &[(Path, bool)],
    ) -> io::Result<()> {
        let dir = self.content.dir.of_generation(generation);
        std::fs::create_dir(dir.generation_dir())?;
        create_counters(&dir.counters())?;
        let replaced = |change: &&Change| !change.is_same_directory;
        let left_out: Option<HashSet<&Path>> =
            changes.map(|changes| changes.iter().filter(replaced).map(|change| &change.path).collect());
        let left_out = |path: &Path| left_out.as_ref().is_none_or(|left_out| left_out.contains(path));
        if let Some(mount) = &self.frontends.mount {
            // A reused number must not lead to an open copy of another file.
            changes
                .map_or_else(|| mount.close_copies(), |changes| changes.iter().for_each(|c| mount.close_copy(&c.path)));
        }
        let mirror = self.content.store.next_mirror(&dir, &left_out)?;
        let (table, pinned) = self.succeed(&dir, changes, passthrough)?;
        self.content.links.drop_content(&left_out);
        self.content.store.begin_generation(mirror);
        dir.publish().unwrap_or_else(|error| {
            tracing::warn!(generation, %error, "the generation can't be published: processes that start now get the one before. Make more space under --store");
        });
        let before = std::mem::replace(&mut self.content.dir, dir);
        let mut table = std::mem::replace(&mut self.content.table, table);
        if self.serves_audit && self.frontends.mount.is_some() {
            table.leave_mount();
        }
        self.frontends.clients.begin_generation(generation);
        let since = self.now();
        self.content.generations.older.push(Older { dir: before, table, pinned, since });
        self.content.generations.next_check = Some(since + RETAINED_MS_MIN);
        if let Some(mount) = &self.frontends.mount {
            let directories = mount.generation_began(changes);
            self.relist(directories);
        }
        tracing::info!(generation, changes = changes.map(<[_]>::len), "a generation began");
        Ok(())
    }

    /// Creates the next table and switches the mount to it.
    fn succeed(
        &mut self,
        dir: &NodeDir,
        changes: Option<&[Change]>,
        passthrough: &[(Path, bool)],
    ) -> io::Result<(Table, Vec<u64>)> {
        let make = || {
            let (mut table, pinned) = self.content.table.successor(dir, changes)?;
            passthrough.iter().for_each(|(path, tree)| table.set_passthrough(path, *tree));
            Ok((table, pinned))
        };
        match &self.frontends.mount {
            Some(mount) => mount.succeed(self.content.dir.generation(), dir.root(), make),
            None => make(),
        }
    }

    /// Ends unused older generations, if the check is due.
    pub(crate) fn check_generations(&mut self, now: Time) {
        if self.content.generations.next_check.is_none_or(|due| now < due) {
            return;
        }
        let excess = self.content.generations.older.len().saturating_sub(OLDER_MAX);
        let mut number = 0;
        while number < self.content.generations.older.len() {
            let older = &mut self.content.generations.older[number];
            let table = &older.table;
            older.pinned.retain(|record| table.lookups(*record) > 0);
            let is_used = !older.pinned.is_empty() || is_in_use(&older.dir.counters()).unwrap_or(true);
            if number < excess || (!is_used && now >= older.since + RETAINED_MS_MIN) {
                let older = self.content.generations.older.remove(number);
                self.end_generation(older);
            } else {
                number += 1;
            }
        }
        self.content.generations.next_check = (!self.content.generations.older.is_empty()).then_some(now + CHECK_MS);
    }

    fn end_generation(&mut self, mut older: Older) {
        let generation = older.dir.generation();
        older.table.close();
        if let Ok(clients) = read_counters(&older.dir.counters()) {
            self.content.generations.ended = self.content.generations.ended.plus(&clients);
        }
        if let Some(mount) = &self.frontends.mount {
            mount.generation_ended(generation, older.pinned);
        }
        self.content.store.end_generation(&older.dir);
        older.table.release();
        self.feed(Input::GenerationGone { generation });
    }
}
