//! The readers of nodes: their requests, and answers from the model of the shared file system.

use headwater_abi::wire::{Aspect, Detail, Fact, FileHead};
use headwater_abi::{Attr, Path};
use headwater_proto::{Input, Rank};

use super::{Event, World};
use crate::reader::Piece;
use crate::violation::{Check, ensure};

const EIO: u16 = 5;
const ESTALE: u16 = 116;

impl World {
    pub(super) fn read(&mut self, rank: Rank, path: Path, aspect: Aspect) -> Check {
        self.check_read(rank, &path, aspect)?;
        match aspect {
            Aspect::Listing => self.summary.directories_read += 1,
            _ => self.summary.entries_read += 1,
        }
        if self.random.chance(self.options.read_hang) {
            self.summary.faults += 1;
            self.site_mut(rank).reads.excuse(&path);
            return Ok(());
        }
        let after = self.random.below(20);
        let at = self.now + after;
        let mut fact = match aspect {
            Aspect::Listing => self.tree.listing(&path, at),
            _ => self.tree.entry(&path, at),
        };
        if self.random.chance(self.options.read_failure) {
            self.summary.faults += 1;
            self.site_mut(rank).reads.excuse(&path);
            fact = Fact::Error(EIO);
        }
        let fact = self.seen_by(rank, fact);
        self.schedule_local(after, rank, Input::FactRead { path, aspect, fact });
        Ok(())
    }

    pub(super) fn read_details(&mut self, rank: Rank, path: Path, names: Vec<Box<[u8]>>) -> Check {
        self.check_reader(rank, &path, Aspect::Details)?;
        if self.random.chance(self.options.read_hang) {
            self.summary.faults += 1;
            return Ok(());
        }
        let after = self.random.below(20);
        let mut details = Vec::new();
        for name in names {
            let Some(at) = path.join(&name) else { continue };
            ensure(!self.site(rank).table.facts.contains_key(&at), || format!("{at} is read though it is known"))?;
            let fact = self.tree.entry(&at, self.now + after);
            let is_failing = self.random.chance(self.options.read_failure);
            if !is_failing && matches!(fact, Fact::Attr(_) | Fact::Link(..)) {
                details.push(Detail { name, fact: self.seen_by(rank, fact) });
            }
        }
        self.summary.details_read += details.len() as u64;
        self.schedule_local(after, rank, Input::DetailsRead { path, details });
        Ok(())
    }

    pub(super) fn read_file(
        &mut self,
        rank: Rank,
        path: Path,
        aspect: Aspect,
        have: Option<FileHead>,
        content_bytes_max: u64,
    ) -> Check {
        let is_block = aspect.block().is_some();
        ensure(have.is_some() || !is_block, || format!("a block of {path}, but how large?"))?;
        if let Some(have) = &have {
            if is_block {
                self.site_mut(rank).inodes_in_blocks.insert(have.attr.ino);
            }
            let is_there = have.ranges.is_empty() || self.site(rank).store.is_right(&(path.clone(), None), have);
            ensure(is_there, || format!("{path} is reported as stored"))?;
        }
        self.check_read(rank, &path, aspect)?;
        self.summary.files_opened += 1;
        let count_max = self.limits.reads_in_flight_max;
        let site = self.site_mut(rank);
        let piece = (path.clone(), aspect.block());
        ensure(!site.reads.files.contains_key(&piece), || format!("{piece:?} is read twice at once"))?;
        let number = site.reads.open(&path, aspect, content_bytes_max);
        let (count, life) = (site.reads.files.len(), site.life);
        ensure(count <= count_max, || format!("{count} files are read at once"))?;
        if self.random.chance(self.options.read_hang) {
            self.summary.faults += 1;
        } else {
            let after = self.random.below(20);
            self.schedule(after, Event::ReadStep { rank, life, piece, number });
        }
        Ok(())
    }

    pub(super) fn read_step(&mut self, rank: Rank, piece: &Piece, number: u64) -> Check {
        let path = &piece.0;
        let is_failing = self.random.chance(self.options.read_failure);
        let is_full = self.random.chance(self.options.store_failure);
        let (step, now, device) = (1 + self.random.below(300_000), self.now, self.device(rank));
        let site = &mut self.sites[rank.0 as usize];
        let Some(read) = site.reads.get(piece, number) else { return Ok(()) };
        let aspect = read.aspect;
        let mut is_over = false;
        let input = match &read.head {
            _ if is_failing => Input::FileFailed { path: path.clone(), aspect, errno: EIO },
            Some(_) if is_full => Input::StoreFailed { path: path.clone(), block: piece.1 },
            None => match self.tree.open(path, aspect, now) {
                Ok(mut head) => {
                    head.attr.dev_minor = device;
                    read.head = Some(head.clone());
                    is_over = head.content_bytes() > read.content_bytes_max;
                    if !is_over {
                        site.store.open(piece);
                    }
                    Input::FileOpened { path: path.clone(), aspect, head }
                }
                Err(errno) => Input::FileFailed { path: path.clone(), aspect, errno },
            },
            Some(head) if !self.tree.is_current(path, &head.attr) => {
                Input::FileFailed { path: path.clone(), aspect, errno: ESTALE }
            }
            Some(head) => {
                let (head, from) = (head.clone(), read.position);
                let position = (from + step).min(head.content_bytes());
                read.position = position;
                site.store.fill(piece, &head, from, position);
                Input::FileRead { path: path.clone(), aspect, position }
            }
        };
        let has_failed = matches!(input, Input::FileFailed { .. } | Input::StoreFailed { .. });
        if has_failed || is_over {
            self.summary.faults += u64::from(is_failing || is_full);
            let site = self.site_mut(rank);
            site.reads.files.remove(piece);
            if has_failed {
                site.reads.excuse(path);
            }
        }
        self.pass_input(rank, input)?;
        if !has_failed && !is_over {
            let (after, life) = (self.random.below(5), self.site(rank).life);
            self.schedule(after, Event::ReadStep { rank, life, piece: piece.clone(), number });
        }
        Ok(())
    }

    /// Computes a digest of what is in the store by now.
    pub(super) fn digest(&mut self, rank: Rank, path: Path, aspect: Aspect, head: &FileHead) -> Check {
        let digest = self.site(rank).store.digest(&(path.clone(), aspect.block()), head);
        self.pass_input(rank, Input::Digested { path, aspect, digest })
    }

    /// Returns a fact as this node sees it.
    fn seen_by(&self, rank: Rank, fact: Fact) -> Fact {
        let seen = |attr: Attr| Attr { dev_minor: self.device(rank), ..attr };
        match fact {
            Fact::Attr(attr) => Fact::Attr(seen(attr)),
            Fact::Link(attr, target) => Fact::Link(seen(attr), target),
            Fact::Listing(attr, names) => Fact::Listing(seen(attr), names),
            Fact::Unlistable(attr) => Fact::Unlistable(seen(attr)),
            fact @ (Fact::Absent | Fact::Error(_)) => fact,
        }
    }

    /// Returns the number of the shared file system's device on a node.
    fn device(&self, rank: Rank) -> u32 {
        if self.options.devices_differ { rank.0 } else { 0 }
    }
}
