//! Locks that outlive the daemon. A lock belongs to an opening of the source file: while the supervisor has a duplicate
//! of that, the lock stays taken, and the next daemon continues with it.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::{Deserialize, Serialize};

use super::owner::Life;
use super::queue::{Holder, Locks};

/// How long the supervisor may take to make room for a message.
const ROOM_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A change of the locks that are taken, for the supervisor: one packet of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LockChange {
    /// A holder has its first lock of a file. The opening that it belongs to accompanies the packet.
    Taken(TakenLock),
    /// It has none any more.
    Returned(Holder),
}

/// Who has locks of a file, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenLock {
    /// Who has them.
    pub holder: Holder,
    pub(super) pid: u32,
    pub(super) life: Life,
}

/// What a daemon gets from its supervisor about locks.
#[derive(Debug, Default)]
pub struct LockHandover {
    /// The socket to the supervisor, for [`LockChange`].
    pub supervisor: Option<OwnedFd>,
    /// The epoll instance that watches the holders.
    pub watch: Option<OwnedFd>,
    /// Locks that a predecessor has taken, and the opening that each belongs to.
    pub taken: Vec<(TakenLock, Arc<OwnedFd>)>,
}

impl LockHandover {
    /// Makes the predecessor's locks known, before anything is served.
    pub(crate) fn note_in(&self, locks: &Locks, has_source: bool) {
        for (lock, file) in &self.taken {
            locks.set_file(lock.holder, Some(Arc::clone(file)));
            if !has_source {
                locks.set_stand_in(lock.holder.node, file);
            }
        }
    }
}

/// Reports a change to the supervisor. If that fails, the lock ends with this process.
pub(super) fn report(supervisor: &OwnedFd, change: &LockChange, file: Option<&OwnedFd>) -> Result<(), Errno> {
    let packet = serde_json::to_vec(change).map_err(|_| Errno::INVAL)?;
    let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(Errno::INVAL);
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(supervisor, &[IoSlice::new(&packet)], &mut control, flags).map(drop)
    };
    match send() {
        Err(Errno::AGAIN) => {
            poll(&mut [PollFd::new(supervisor, PollFlags::OUT)], Some(&ROOM_TIMEOUT))?;
            send()
        }
        result => result,
    }
}
