//! Facts about paths, and the job's own changes that invalidate them.

use alloc::vec::Vec;

use headwater_abi::wire::{Aspect, Fact, Message};
use headwater_abi::{Kind, Path, Want};

use super::Node;
use crate::entry::{Learned, inode_of, is_sound};
use crate::pending::{Key, Route};
use crate::policy::Thing;
use crate::state::confirm::{Asker, Place};
use crate::{Output, Peer, Publication, Reply};

/// Error numbers that are facts about the path: `EPERM`, `EACCES`, `ENOTDIR`, `ENAMETOOLONG`, `ELOOP`.
/// Others, such as `EIO`, may be temporary, and the process uses the source file.
const PERMANENT: [u16; 5] = [1, 13, 20, 36, 40];

impl Node {
    /// Handles a fact from the reader.
    pub(super) fn fact_read(&mut self, path: Path, aspect: Aspect, fact: Fact) {
        let key = (path.clone(), aspect);
        if is_sound(&fact) {
            let was_checked = aspect == Aspect::Entry && self.checked(&path, &fact);
            if was_checked && self.pending.route(&key) != Some(Route::Read) {
                return;
            }
            if self.learn(&path, fact, true) {
                self.note_read(&path);
            }
        }
        if self.pending.route(&key) == Some(Route::Read) {
            self.fail_for_now(&key);
        }
    }

    /// Adds a fact and publishes it. True if it is new or was known. Children get a fact that `is_alone` at
    /// once, any other with its content.
    pub(super) fn learn(&mut self, path: &Path, fact: Fact, is_alone: bool) -> bool {
        let is_passing = matches!(&fact, Fact::Error(errno) if !PERMANENT.contains(errno));
        if is_passing || !self.scope.contains(path) || self.passthrough.covers(path) {
            return false;
        }
        if let Fact::Attr(attr) = &fact
            && attr.nlink > 1
            && attr.kind() == Kind::File
            && self.passthrough.covers_inode(inode_of(attr))
        {
            self.begin_passthrough(path, false, None);
            return false;
        }
        if self.versions.contradict(path, &fact) {
            // If only a directory's names have changed, what is known below stays.
            let is_other = |attr| self.versions.contradict(path, &Fact::Attr(attr));
            let tree = fact.attr().is_some_and(|attr| attr.kind() == Kind::Dir && is_other(*attr));
            self.changed(path, tree);
            return false;
        }
        let is_known = self.entries.get(path).is_some();
        match self.entries.learn(path, fact) {
            Learned::New => self.note_forgettable(path, is_known),
            Learned::Known => {
                self.wake(path);
                return true;
            }
            Learned::Contradiction => {
                let tree = self.entries.get(path).is_some_and(|entry| entry.is_dir());
                self.changed(path, tree);
                return false;
            }
            Learned::Full => {
                for key in self.pending.keys_of(path).cloned().collect::<Vec<Key>>() {
                    self.fail_for_now(&key);
                }
                return false;
            }
        }
        if let Some(fact) = self.entries.fact(path).cloned() {
            self.publish(Publication::Fact { path: path.clone(), fact });
        }
        if is_alone {
            self.fresh.push_back(Thing::Fact(path.clone()));
        }
        self.wake(path);
        true
    }

    /// Handles a process's notice that it is about to change `path`. If that is a link, either it or its
    /// target changes; only `NO_FOLLOW` distinguishes them.
    pub(super) fn request_passthrough(&mut self, path: &Path, want: Want) {
        let tree = want.contains(Want::TREE);
        let target = self.map().walk(path, want).path;
        let link = self.map().walk(path, want | Want::NO_FOLLOW).path;
        self.begin_passthrough(&target, tree, None);
        self.begin_passthrough(&link, tree, None);
    }

    /// Passes `path` through, and with `tree` everything below it. Reported by `from`, or by a process.
    pub(super) fn begin_passthrough(&mut self, path: &Path, tree: bool, from: Option<Peer>) {
        let is_from_above = from.is_some() && from == self.control_parent().map(Peer::Parent);
        // A parent in another tree says only that the source file serves the path, not who changes it.
        let is_from_beside = !is_from_above && matches!(from, Some(Peer::Parent(_)));
        let is_known = match is_from_beside && !tree {
            true => self.passthrough.covers(path),
            false => self.passthrough.covers_as(path, tree, is_from_above),
        };
        if !self.scope.contains(path) || is_known {
            return;
        }
        // Writing through one name changes the content of the others. Below a tree no write is announced any more.
        let inodes = self.entries.shared_inodes(path, tree);
        let names: Vec<Path> = self.entries.names_of(&inodes).cloned().collect();
        self.passthrough.extend_inodes(inodes);
        if is_from_above || !self.begin_passthrough_of_directory(path) {
            self.passthrough.insert(path, tree, is_from_above);
            self.announce_passthrough(path, tree, from);
        }
        for name in names {
            self.begin_passthrough(&name, false, None);
        }
    }

    /// Announces `path` as a passthrough path.
    fn announce_passthrough(&mut self, path: &Path, tree: bool, from: Option<Peer>) {
        self.spread(&Message::Passthrough { path: path.clone(), tree }, from);
        self.publish_passthrough(path, tree);
        if tree {
            let below: Vec<Path> = self.entries.descendants(path).cloned().collect();
            for path in below {
                self.publish_passthrough(&path, false);
            }
        }
        // Requests for what the source file serves now have their answer.
        for key in self.pending.keys(|(requested, _), _| requested == path || (tree && requested.is_within(path))) {
            self.release(&key);
        }
    }

    /// Passes a whole directory through if it has too many passthrough names: a job may make and remove names
    /// for as long as it runs. False if it has not. Reports from above were counted there.
    fn begin_passthrough_of_directory(&mut self, path: &Path) -> bool {
        let directory = path.parent().filter(|directory| self.scope.contains(directory));
        let Some(directory) =
            directory.filter(|at| self.passthrough.is_crowded(at, self.config.limits.passthrough_max()))
        else {
            return false;
        };
        self.begin_passthrough(&directory, true, None);
        self.passthrough.covers(path)
    }

    /// Notes that programs run which don't announce their changes. Reported by `from`, or by a process.
    pub(super) fn begin_unaudited(&mut self, from: Option<Peer>) {
        if core::mem::replace(&mut self.is_unaudited, true) {
            return;
        }
        self.spread(&Message::Unaudited, from);
        self.publish(Publication::Unaudited);
    }

    /// Sends a message for all nodes to the neighbours, except to the one from which it came.
    pub(super) fn spread(&mut self, message: &Message, from: Option<Peer>) {
        let parent = self.control_parent().map(Peer::Parent);
        let children = self.children.iter().filter(|(_, child)| child.joined.is_control);
        let neighbours = children.map(|(&rank, _)| Peer::Child(rank)).chain(parent);
        for to in neighbours.filter(|&to| Some(to) != from).collect::<Vec<Peer>>() {
            self.announce_to(to, message.clone());
        }
    }

    /// Sends an announcement to a neighbour, which will have to confirm it.
    pub(super) fn announce_to(&mut self, to: Peer, message: Message) {
        self.confirmations.announced(Place::Peer(to));
        self.send(to, message);
    }

    /// Answers `asker` once all places to which something has been announced have confirmed it.
    pub(super) fn confirm(&mut self, asker: Asker) {
        if let Asker::Client(client) = asker
            && self.confirmations.len() >= self.config.limits.clients_waiting_max
        {
            return self.reply(client, Reply::Done);
        }
        for (place, number) in self.confirmations.ask(self.now, asker) {
            self.ask_to_confirm(place, number);
        }
        self.answer_confirmed();
    }

    /// Handles a peer's question whether all that it has announced is known here and beyond.
    pub(super) fn confirm_for_peer(&mut self, from: Peer, number: u32) -> Result<(), &'static str> {
        if self.confirmations.is_asked_by(from) {
            return Err("a second question before the answer");
        }
        self.confirm(Asker::Peer(from, number));
        Ok(())
    }

    /// Handles a confirmation.
    pub(super) fn confirmed(&mut self, place: Place, number: u32) -> Result<(), &'static str> {
        if let Some(next) = self.confirmations.confirmed(self.now, place, number)? {
            self.ask_to_confirm(place, next);
        }
        self.answer_confirmed();
        Ok(())
    }

    fn ask_to_confirm(&mut self, place: Place, number: u32) {
        match place {
            Place::Kernel => self.outputs.push_back(Output::Settle { number }),
            Place::Peer(peer) => self.send(peer, Message::Confirm { number }),
        }
    }

    /// Answers those who wait for no confirmation any more.
    pub(super) fn answer_confirmed(&mut self) {
        for asker in self.confirmations.take_done() {
            match asker {
                Asker::Client(client) => self.reply(client, Reply::Done),
                Asker::Peer(peer, number) => self.send(peer, Message::Confirmed { number }),
            }
        }
    }

    pub(super) fn publish_passthrough(&mut self, path: &Path, tree: bool) {
        self.confirmations.announced(Place::Kernel);
        self.publish(Publication::Passthrough { path: path.clone(), tree });
        self.forget_content(path);
    }
}
