//! Generations: processes that started earlier go on with what they began with, those that start
//! from now on find what is new.
//!
//! A generation has a table, a mirror and a counters file of its own. Its table is a copy of the one
//! before, in which nothing is known of what has changed; so the kernel's references to all else, and
//! what it remembers of that, stay good. A process of the audit library has its generation's
//! counters file mapped as long as it lives, which a lease on that file tells.

mod settling;

use std::collections::HashSet;
use std::io;

use headwater_abi::Path;
use headwater_abi::table::Reader;
use headwater_abi::wire::Change;
use headwater_fuse::NodeId;
use headwater_proto::{Input, Time};

use self::settling::Settling;
use crate::event_loop::Daemon;
use headwater_store::layout::NodeDir;
use headwater_mount::OlderTable;
use crate::report::Clients;
use crate::session::{create_counters, read_counters};
use headwater_store::is_in_use;
use headwater_store::Table;

/// Older generations that are kept; the oldest beyond them are ended, and who still uses them uses
/// the originals.
const OLDER_MAX: usize = 16;
/// How long a generation is kept in any case, in milliseconds: a process that has read its name may
/// be about to open its table.
const KEPT_MS_MIN: Time = 5_000;
/// How often the daemon looks who uses older generations, in milliseconds.
const LOOK_MS: Time = 1_000;

/// Generations before the newest.
#[derive(Default)]
pub(crate) struct Generations {
    older: Vec<Older>,
    /// What processes of those counted that have ended.
    ended: Clients,
    next_look: Option<Time>,
    pub(crate) settling: Settling,
}

struct Older {
    dir: NodeDir,
    table: Table,
    /// Records that the newer tables lack, though the kernel refers to them.
    held: Vec<u64>,
    since: Time,
}

impl Generations {
    /// Those that a predecessor left in `dir`, whose newest has this table; what it was making goes.
    pub(crate) fn find(dir: &NodeDir, table: &Table) -> Generations {
        let entries = std::fs::read_dir(dir.path()).into_iter().flatten().flatten();
        let mut numbers: Vec<u64> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let newest = dir.generation();
        let (mut older, mut newer) = (Vec::new(), vec![table.reader()]);
        for dir in numbers.into_iter().map(|generation| dir.of_generation(generation)) {
            let generation = dir.generation();
            if generation > newest {
                let _ = dir.remove_generation();
            } else if generation < newest {
                match Table::attach(&dir.table(), table.geometry()) {
                    Ok(table) => {
                        let held = held(&table.reader(), &newer);
                        newer.push(table.reader());
                        older.push(Older { dir, table, held, since: 0 });
                    }
                    Err(error) => {
                        tracing::warn!(generation, %error, "an older generation stays until the session ends");
                    }
                }
            }
        }
        older.reverse();
        let next_look = (!older.is_empty()).then_some(KEPT_MS_MIN);
        Generations { older, next_look, ..Generations::default() }
    }

    /// What a mount needs of them, in their order.
    pub(crate) fn tables(&self) -> Vec<OlderTable> {
        let table = |older: &Older| OlderTable {
            generation: older.dir.generation(),
            reader: older.table.reader(),
            root: older.dir.root(),
            held: older.held.iter().copied().map(NodeId).collect(),
        };
        self.older.iter().map(table).collect()
    }

    /// Their directories.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &NodeDir> {
        self.older.iter().map(|older| &older.dir)
    }

    /// How many older generations there are.
    pub(crate) fn len(&self) -> usize {
        self.older.len()
    }

    /// When [`Daemon::look_at_generations`] is due.
    pub(crate) fn next_look(&self) -> Option<Time> {
        self.next_look
    }

    /// What processes counted, in the newest generation in `dir` and in all before.
    pub(crate) fn clients(&self, dir: &NodeDir) -> io::Result<Clients> {
        let mut sum = read_counters(&dir.counters())?.plus(&self.ended);
        for older in &self.older {
            sum = sum.plus(&read_counters(&older.dir.counters())?);
        }
        Ok(sum)
    }

    /// The copy of `path` with this inode number has gone.
    pub(crate) fn evicted(&mut self, path: &Path, ino: Option<u64>) {
        for older in self.older.iter_mut().filter(|older| ino.is_some() && older.table.copy_of(path) == ino) {
            older.table.evicted(path);
        }
    }

    /// The job changes `path`.
    pub(crate) fn live(&mut self, path: &Path, tree: bool) {
        for older in &mut self.older {
            older.table.live(path, tree);
        }
    }

    /// Programs run that do not say what they change.
    pub(crate) fn unaudited(&mut self) {
        self.older.iter_mut().for_each(|older| older.table.unaudited());
    }

    /// No request will be answered any more.
    pub(crate) fn close(&mut self) {
        for older in &mut self.older {
            older.table.close();
        }
    }
}

impl Daemon {
    /// Begins a generation. Where that can't be done, what has changed is served by the originals.
    pub(crate) fn begin_generation(&mut self, generation: u64, changes: Option<&[Change]>, live: &[(Path, bool)]) {
        if let Err(error) = self.try_generation(generation, changes, live) {
            tracing::warn!(generation, %error, "a generation could not be made; processes use the originals of what has changed. More space under --store helps");
            let _ = self.dir.of_generation(generation).remove_generation();
            self.inbox.push_back(Input::GenerationFailed { changes: changes.map(<[Change]>::to_vec) });
        }
    }

    fn try_generation(&mut self, generation: u64, changes: Option<&[Change]>, live: &[(Path, bool)]) -> io::Result<()> {
        let dir = self.dir.of_generation(generation);
        std::fs::create_dir(dir.generation_dir())?;
        create_counters(&dir.counters())?;
        let replaced = |change: &&Change| !change.is_same_directory;
        let left_out: Option<HashSet<&Path>> =
            changes.map(|changes| changes.iter().filter(replaced).map(|change| &change.path).collect());
        let left_out = |path: &Path| left_out.as_ref().is_none_or(|left_out| left_out.contains(path));
        if let Some(mount) = &self.mount {
            // A number that is used again must not lead to an open copy of something else.
            changes
                .map_or_else(|| mount.close_copies(), |changes| changes.iter().for_each(|c| mount.close_copy(&c.path)));
        }
        let mirror = self.store.next_mirror(&dir, &left_out)?;
        let (table, held) = self.succeed(&dir, changes, live)?;
        self.links.drop_content(&left_out);
        self.store.begin_generation(mirror);
        dir.publish().unwrap_or_else(|error| {
            tracing::warn!(generation, %error, "processes that start now get the generation before");
        });
        let before = std::mem::replace(&mut self.dir, dir);
        let table = std::mem::replace(&mut self.table, table);
        self.clients.begin_generation(generation);
        let since = self.now();
        self.generations.older.push(Older { dir: before, table, held, since });
        self.generations.next_look = Some(since + KEPT_MS_MIN);
        if let Some(mount) = &self.mount {
            let directories = mount.generation_began(changes);
            self.list_anew(directories);
        }
        tracing::info!(generation, changes = changes.map(<[_]>::len), "a generation began");
        Ok(())
    }

    /// Makes the next table and lets whoever serves the mount look into it.
    fn succeed(
        &mut self,
        dir: &NodeDir,
        changes: Option<&[Change]>,
        live: &[(Path, bool)],
    ) -> io::Result<(Table, Vec<u64>)> {
        let make = || {
            let (mut table, held) = self.table.successor(dir, changes)?;
            live.iter().for_each(|(path, tree)| table.live(path, *tree));
            Ok((table, held))
        };
        match &self.mount {
            Some(mount) => mount.succeed(self.dir.generation(), dir.root(), make),
            None => make(),
        }
    }

    /// Ends older generations that nobody uses, if it is time to look.
    pub(crate) fn look_at_generations(&mut self, now: Time) {
        if self.generations.next_look.is_none_or(|look| now < look) {
            return;
        }
        let excess = self.generations.older.len().saturating_sub(OLDER_MAX);
        let mut number = 0;
        while number < self.generations.older.len() {
            let older = &mut self.generations.older[number];
            let table = &older.table;
            older.held.retain(|record| table.lookups(*record) > 0);
            let is_used = !older.held.is_empty() || is_in_use(&older.dir.counters()).unwrap_or(true);
            if number < excess || (!is_used && now >= older.since + KEPT_MS_MIN) {
                let older = self.generations.older.remove(number);
                self.end_generation(older);
            } else {
                number += 1;
            }
        }
        self.generations.next_look = (self.generations.len() > 0).then_some(now + LOOK_MS);
    }

    fn end_generation(&mut self, mut older: Older) {
        let generation = older.dir.generation();
        older.table.close();
        if let Ok(clients) = read_counters(&older.dir.counters()) {
            self.generations.ended = self.generations.ended.plus(&clients);
        }
        if let Some(mount) = &self.mount {
            mount.generation_ended(generation, older.held);
        }
        self.store.end_generation(&older.dir);
        older.table.release();
        self.feed(Input::GenerationGone { generation });
    }
}

/// Records of an older table that the kernel refers to and the newer ones lack.
fn held(older: &Reader<'static>, newer: &[Reader<'static>]) -> Vec<u64> {
    let is_lacking = |number: &u64| newer.iter().all(|newer| newer.record(*number).is_none());
    older.records().filter(|record| record.lookups() > 0).map(|record| record.index()).filter(is_lacking).collect()
}
