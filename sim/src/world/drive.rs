//! The drivers: the effect of each output on the model.

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, Change};
use headwater_proto::{Input, Output, Peer, Publication, Rank};

use super::links::ChunkOut;
use super::{Event, World};
use crate::reader::Piece;
use crate::site::Table;
use crate::violation::{Check, ensure};

impl World {
    pub(super) fn local(&mut self, rank: Rank, input: Input) -> Check {
        match &input {
            Input::ClientGone { client } if self.site_mut(rank).waiting.remove(client).is_none() => return Ok(()),
            Input::GenerationGone { generation } => self.site_mut(rank).store.forget_generation(*generation),
            _ => {}
        }
        self.pass_input(rank, input)
    }

    pub(super) fn execute(&mut self, rank: Rank, output: Output) -> Check {
        match output {
            Output::Reply { client, reply } => {
                let waiting = self.site_mut(rank).waiting.remove(&client);
                let waiting = waiting.ok_or_else(|| format!("client {} does not wait for an answer", client.0))?;
                self.check_reply(rank, &waiting, reply)
            }
            Output::Dial { rank: to } => self.begin_dialling(rank, to),
            Output::HangUp { rank: to } => self.hang_up(rank, to),
            Output::Send { to, message } => self.send(rank, to, message),
            Output::SendChunk { to, transfer, path, block, position, offset, bytes } => {
                let piece = (path, block);
                self.send_chunk(rank, to, ChunkOut { transfer, piece, position, offset, bytes })
            }
            Output::SendContent { to, path, aspect, head, digest } => {
                self.send_content(rank, to, (path, aspect), (*head).clone(), digest)
            }
            Output::Digest { path, aspect, head } => {
                let (after, life) = (self.random.below(10), self.site(rank).life);
                self.schedule(after, Event::Digest { rank, life, path, aspect, head: Box::new(head) });
                Ok(())
            }
            Output::ReadEntry { path } => self.read(rank, path, Aspect::Entry),
            Output::ReadListing { path } => self.read(rank, path, Aspect::Listing),
            Output::ReadDetails { path, names } => self.read_details(rank, path, names),
            Output::ReadFile { path, aspect, have, content_bytes_max, .. } => {
                self.read_file(rank, path, aspect, have, content_bytes_max)
            }
            Output::Receive { from, transfer, path, block, head, position, .. } => {
                let site = self.site_mut(rank);
                let piece = (path, block);
                if position == 0 {
                    site.store.open(&piece);
                }
                self.summary.continued += u64::from(position > 0);
                let site = self.site_mut(rank);
                let link = site.links.get_mut(&Peer::Parent(from)).ok_or("a file is received over no link")?;
                link.incoming.insert(transfer, (piece, head));
                Ok(())
            }
            Output::Discard { path, block } => {
                self.discard(rank, (path, block));
                Ok(())
            }
            Output::Forget { path } => self.forget(rank, path),
            Output::Changed { path } => ensure(self.changed.contains(&path), || format!("{path} has not changed")),
            Output::Mismatch { path, .. } => {
                self.summary.corrupt += 1;
                let is_possible = self.summary.faults > 0;
                ensure(is_possible, || format!("{path} is reported as wrong"))
            }
            Output::Publish(publication) => self.publish(rank, publication),
            Output::Evict { path } => self.evict(rank, &path),
            Output::Settle { number } => self.settle(rank, number),
            Output::DropLookupCache => self.drop_lookup_cache(rank),
            Output::Generation { generation, changes, passthrough } => {
                self.generation(rank, generation, changes, passthrough)
            }
            Output::Refreshed { request, .. } => self.refreshed(rank, request),
            Output::RefreshFailed { request } => {
                let was_wanted = self.site_mut(rank).refreshes.remove(&request).is_some();
                ensure(was_wanted, || "a refresh fails that was not requested".into())
            }
            Output::Cleared { .. } | Output::FindCached { .. } => Err("this was not requested".into()),
            Output::TimeRead { path, .. } => self.time_read(rank, path),
            Output::Disconnect { peer, reason } => Err(format!("{peer:?} is blamed: {reason}")),
        }
    }

    fn settle(&mut self, rank: Rank, number: u32) -> Check {
        self.schedule_local(0, rank, Input::Settled { number });
        Ok(())
    }

    fn drop_lookup_cache(&mut self, rank: Rank) -> Check {
        self.site_mut(rank).looks_anew = true;
        Ok(())
    }

    fn time_read(&mut self, rank: Rank, path: Path) -> Check {
        let (after, us) = (self.random.below(50), self.random.below(4000));
        let us = self.random.chance(900).then_some(us);
        self.schedule_local(after, rank, Input::ReadTimed { path, us });
        Ok(())
    }

    fn discard(&mut self, rank: Rank, piece: Piece) {
        let site = self.site_mut(rank);
        site.store.discard(&piece);
        site.reads.files.remove(&piece);
        site.reads.excuse(&piece.0);
        for link in site.links.values_mut() {
            link.incoming.retain(|_, (incoming, _)| *incoming != piece);
        }
    }

    fn evict(&mut self, rank: Rank, path: &Path) -> Check {
        let site = self.site_mut(rank);
        if site.unstored.contains(path) {
            return Ok(());
        }
        site.table.in_mount.remove(path);
        let was_there = site.table.resident.remove(path).is_some() | site.table.blocks.remove(path).is_some();
        let may_lack = site.lost.contains(path);
        ensure(was_there || may_lack, || format!("{path} is evicted and was not there"))?;
        let site = self.site_mut(rank);
        let is_needed = site.links.values().any(|link| link.chunks.contains(path));
        site.store.remove(path);
        site.reads.excuse(path);
        ensure(!is_needed || may_lack, || format!("{path} is evicted while it is sent"))
    }

    fn publish(&mut self, rank: Rank, publication: Publication) -> Check {
        let Some(publication) = self.store_arrived(rank, publication)? else { return Ok(()) };
        self.check_publication(rank, &publication)?;
        let site = self.site_mut(rank);
        match publication {
            Publication::Arrived { .. } => {}
            Publication::Fact { path, fact } => {
                site.table.facts.insert(path, fact);
            }
            Publication::Content { path, head, is_marked, .. } => {
                let piece = (path, None);
                site.store.publish(&piece);
                site.reads.files.remove(&piece);
                if head.whole {
                    site.table.blocks.remove(&piece.0);
                }
                site.table.resident.insert(piece.0.clone(), head);
                self.use_marked(rank, piece, is_marked);
            }
            Publication::Block { path, block, is_marked, .. } => {
                let piece = (path, Some(block));
                self.summary.blocks += 1;
                let site = self.site_mut(rank);
                site.store.publish(&piece);
                site.reads.files.remove(&piece);
                site.table.blocks.entry(piece.0.clone()).or_default().insert(block);
                self.use_marked(rank, piece, is_marked);
            }
            Publication::HardLink { path, target, head, .. } => {
                ensure(site.store.link(&path, &target), || format!("{path} can't become a link to {target}"))?;
                site.table.resident.insert(path, head);
                self.summary.hard_links += 1;
            }
            Publication::Passthrough { path, tree } => {
                site.table.passthrough_listings.extend(path.parent());
                *site.table.passthrough.entry(path).or_default() |= tree;
            }
            Publication::Direct { path } => drop(site.table.direct.insert(path)),
            Publication::InMount { path, .. } => drop(site.table.in_mount.insert(path)),
            // Comparing with the source file is the audit library's task.
            Publication::Unaudited => {}
        }
        Ok(())
    }

    /// Stores what came with the message that is being handled. `None` if the store can't take it, or did not
    /// take the link's target.
    fn store_arrived(&mut self, rank: Rank, publication: Publication) -> Result<Option<Publication>, String> {
        let site = self.site_mut(rank);
        match publication {
            Publication::Arrived { path, aspect, head, is_marked, .. } => {
                let Some(content) = site.received_content.take() else {
                    site.lost.insert(path.clone());
                    site.unstored.push_back(path);
                    return Ok(None);
                };
                let piece = (path, None);
                site.store.open(&piece);
                site.store.write(&piece, content);
                Ok(Some(Publication::Content { path: piece.0, aspect, head, is_marked }))
            }
            Publication::HardLink { path, target, .. } if site.unstored.contains(&target) => {
                site.lost.insert(path.clone());
                site.unstored.push_back(path);
                Ok(None)
            }
            publication => Ok(Some(publication)),
        }
    }

    /// Marked content may be used at some time, which is reported to the node.
    fn use_marked(&mut self, rank: Rank, (path, block): Piece, is_marked: bool) {
        if is_marked && self.random.chance(700) {
            let after = self.random.below(200);
            self.schedule_local(after, rank, Input::Used { path, block });
        }
    }

    fn forget(&mut self, rank: Rank, path: Path) -> Check {
        self.summary.forgotten += 1;
        let site = self.site_mut(rank);
        let Table { resident, blocks, facts, .. } = &mut site.table;
        let is_used = resident.contains_key(&path) || blocks.contains_key(&path);
        ensure(facts.remove(&path).is_some(), || format!("{path} is forgotten and was not known"))?;
        let mut below = facts.range(path.clone()..).take_while(|(at, _)| at.as_bytes().starts_with(path.as_bytes()));
        let is_above = below.any(|(at, _)| at.is_within(&path));
        ensure(!is_used && !site.is_passthrough(&path), || format!("{path} is forgotten though it is used"))?;
        ensure(!is_above, || format!("{path} is forgotten before what is below"))?;
        site.reads.excuse(&path);
        Ok(())
    }

    /// Begins a later generation of the node's table.
    fn generation(
        &mut self,
        rank: Rank,
        generation: u64,
        changes: Option<Vec<Change>>,
        passthrough: Vec<(Path, bool)>,
    ) -> Check {
        self.summary.generations += 1;
        let site = self.site_mut(rank);
        let before = std::mem::replace(&mut site.table.generation, generation);
        ensure(before < generation, || format!("generation {generation} comes after {before}"))?;
        let changed: Vec<Path> = match changes {
            Some(changes) => changes.into_iter().map(|change| change.path).collect(),
            None => site.table.facts.keys().cloned().collect(),
        };
        site.table.passthrough_listings = passthrough.iter().filter_map(|(path, _)| path.parent()).collect();
        site.table.passthrough = passthrough.into_iter().collect();
        // Changed passthrough paths are not visible.
        let changed: Vec<Path> = changed.into_iter().filter(|path| !site.is_passthrough(path)).collect();
        for path in &changed {
            site.table.facts.remove(path);
            site.table.blocks.remove(path);
            site.table.resident.remove(path);
            site.table.direct.remove(path);
            site.table.in_mount.remove(path);
            site.store.retain_version(path, before);
        }
        site.reads.excuse_all();
        site.links.values_mut().for_each(|link| link.wants.clear());
        let after = self.random.below(500);
        self.schedule_local(after, rank, Input::GenerationGone { generation: before });
        Ok(())
    }

    /// Checks that what the user sees from now on is not older than the request.
    fn refreshed(&mut self, rank: Rank, request: u64) -> Check {
        let wanted_at = self.site_mut(rank).refreshes.remove(&request);
        let wanted_at = wanted_at.ok_or("a refresh is answered that was not requested")?;
        self.check_refreshed(rank, wanted_at)
    }
}
