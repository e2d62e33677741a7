//! Duplicates of the files that locks belong to. While this process has them, the locks stay taken when the daemon
//! dies, and its successor inherits them.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use headwater_daemon::process::descriptors_max;
use headwater_mount::{LockChange, LockHolder, LocksConfig, TakenLock};
use rustix::event::epoll::{self, CreateFlags};

use crate::namespace::{Channel, receive_with_descriptors};

/// The longest message of a daemon, in bytes.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The locks that a node's daemons have taken.
pub(crate) struct LockStore {
    /// This process's end of the daemons' socket.
    own: Channel,
    /// The other end, which each daemon inherits.
    other: OwnedFd,
    /// Watches the holders for the daemons. It forgets one that ends while there is no daemon.
    watch: OwnedFd,
    taken: HashMap<LockHolder, (TakenLock, OwnedFd)>,
    taken_max: usize,
}

impl LockStore {
    pub(crate) fn new() -> io::Result<LockStore> {
        let (own, other) = Channel::pair()?;
        rustix::io::ioctl_fionbio(own.as_fd(), true)?;
        let watch = epoll::create(CreateFlags::CLOEXEC)?;
        // The others are for starting daemons, and for serving the mount.
        let taken_max = descriptors_max() / 2;
        Ok(LockStore { own, other, watch, taken: HashMap::new(), taken_max })
    }

    /// Returns a descriptor that is readable when [`LockStore::update`] has something to do.
    pub(crate) fn changes(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }

    /// Notes all changes that daemons have reported.
    pub(crate) fn update(&mut self) {
        let mut packet = vec![0; MESSAGE_BYTES_MAX];
        while let Ok((bytes @ 1.., files)) = receive_with_descriptors(self.own.as_fd(), &mut packet) {
            match (serde_json::from_slice(&packet[..bytes]), files.into_iter().next()) {
                (Ok(LockChange::Taken(lock)), Some(file)) if self.taken.len() < self.taken_max => {
                    self.taken.insert(lock.holder, (lock, file));
                }
                (Ok(LockChange::Returned(holder)), _) => drop(self.taken.remove(&holder)),
                (Ok(LockChange::Taken(lock)), _) => {
                    tracing::debug!(?lock, "too many locks; this one would not outlive the daemon");
                }
                (Err(error), _) => tracing::debug!(%error, "a message about locks is not understood"),
            }
        }
    }

    /// Returns what the next daemon needs. It has to inherit [`LockStore::descriptors`].
    pub(crate) fn config(&self) -> LocksConfig {
        let taken = self.taken.values().map(|(lock, file)| (lock.clone(), file.as_raw_fd()));
        LocksConfig {
            supervisor: Some(self.other.as_raw_fd()),
            watch: Some(self.watch.as_raw_fd()),
            taken: taken.collect(),
        }
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let files = self.taken.values().map(|(_, file)| file.as_fd());
        [self.other.as_fd(), self.watch.as_fd()].into_iter().chain(files)
    }

    /// Returns what this process needs if it serves the mount itself, with duplicates. Nothing will succeed it.
    ///
    /// # Errors
    /// This process may not have more descriptors.
    pub(crate) fn config_of_last(&self) -> io::Result<LocksConfig> {
        let duplicate = |file: &OwnedFd| file.try_clone().map(IntoRawFd::into_raw_fd);
        let taken = self.taken.values().map(|(lock, file)| Ok((lock.clone(), duplicate(file)?)));
        Ok(LocksConfig {
            supervisor: None,
            watch: Some(duplicate(&self.watch)?),
            taken: taken.collect::<io::Result<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::send_with_descriptors;

    fn send(store: &LockStore, packet: &str, file: Option<&std::fs::File>) {
        let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
        send_with_descriptors(store.other.as_fd(), packet.as_bytes(), &files).unwrap();
    }

    #[test]
    fn what_is_taken_is_inherited_until_it_is_returned() {
        let mut store = LockStore { taken_max: 2, ..LockStore::new().unwrap() };
        let file = tempfile::tempfile().unwrap();
        let holder = |owner: u64| format!(r#"{{"node":7,"owner":{owner},"is_flock":true}}"#);
        let taken = |owner: u64| {
            let life = r#"{"description":3,"processes":[]}"#;
            format!(r#"{{"taken":{{"holder":{},"pid":1,"life":{life}}}}}"#, holder(owner))
        };
        send(&store, &taken(1), Some(&file));
        send(&store, &taken(2), None);
        send(&store, "something else", Some(&file));
        send(&store, &taken(3), Some(&file));
        send(&store, &taken(4), Some(&file));
        store.update();
        let owners = |store: &LockStore| -> Vec<u64> {
            let has = |owner: &u64| store.taken.contains_key(&serde_json::from_str(&holder(*owner)).unwrap());
            (1..=9).filter(has).collect()
        };
        assert_eq!(owners(&store), [1, 3]);
        send(&store, &format!(r#"{{"returned":{}}}"#, holder(1)), None);
        send(&store, &format!(r#"{{"returned":{}}}"#, holder(9)), None);
        store.update();
        assert_eq!(owners(&store), [3]);
        assert_eq!((store.config().taken.len(), store.descriptors().count()), (1, 3));
    }
}
