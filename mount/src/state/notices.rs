//! The queue of notifications to the kernel.
//!
//! Sending a notification can block on a lock in the kernel whose holder waits for an answer of this daemon. So workers
//! only queue notifications. The queue has each one once and never exceeds the records of the table.

use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headwater_abi::Path;
use headwater_fuse::NodeId;

/// One notification.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Notice {
    /// Attributes and pages of a node are out of date.
    NodeChanged(NodeId),
    /// A name of a directory may lead to something else.
    NameChanged(NodeId, Box<[u8]>),
    /// A directory's attributes and names are out of date.
    ListingChanged(NodeId),
    /// Any name may lead to another object, or to one at all.
    NamesChanged,
    /// No notification: the earlier ones have been sent, as the event loop wanted to know by this number.
    Sent(u32),
    /// No notification: another node is about to change what the path of this node leads to.
    Anchor(NodeId, Path),
    /// An unused node that need not be cached: its directory and name.
    Forget(NodeId, NodeId, Box<[u8]>),
}

/// Pending notifications.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The delay of a notification about a node that is being read, so that the read is answered first. The kernel ignores
/// the size in an answer if a notification has arrived since the request.
const LATER: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<Notice>,
    /// Notifications that are queued at these times.
    later: VecDeque<(Instant, Notice)>,
    waiting: HashSet<Notice>,
    is_woken: bool,
    is_closed: bool,
    /// The notification that is being sent.
    sending: Option<Notice>,
}

/// The thread's next step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Notify(Notice),
    /// Close idle source files.
    CloseIdle,
    End,
}

impl Notices {
    /// Queues a notification unless it is queued already. Never blocks.
    pub(crate) fn send(&self, notice: Notice) {
        let mut queue = self.queue();
        if !queue.is_closed && queue.waiting.insert(notice.clone()) {
            queue.order.push_back(notice);
            self.changed.notify_one();
        }
    }

    /// Queues a notification after a short delay.
    pub(crate) fn send_later(&self, notice: Notice) {
        let mut queue = self.queue();
        if !queue.is_closed {
            queue.later.push_back((Instant::now() + LATER, notice));
            self.changed.notify_one();
        }
    }

    /// Removes the notification of a node's attributes and pages. Returns false if there was none.
    pub(crate) fn cancel(&self, node: NodeId) -> bool {
        let notice = Notice::NodeChanged(node);
        let mut queue = self.queue();
        let before = queue.later.len() + queue.order.len();
        queue.later.retain(|(_, later)| *later != notice);
        if queue.waiting.remove(&notice) {
            queue.order.retain(|waiting| *waiting != notice);
        }
        queue.later.len() + queue.order.len() < before
    }

    /// Delays a node's notification, if it is queued.
    pub(crate) fn postpone(&self, node: NodeId) {
        if self.cancel(node) {
            self.send_later(Notice::NodeChanged(node));
        }
    }

    /// Makes the thread check for idle source files soon.
    pub(crate) fn wake(&self) {
        self.queue().is_woken = true;
        self.changed.notify_one();
    }

    /// Returns true if all notifications have been sent.
    pub(crate) fn is_idle(&self) -> bool {
        let queue = self.queue();
        queue.order.is_empty() && queue.later.is_empty() && queue.sending.is_none()
    }

    /// Queues [`Notice::Sent`] behind the notifications that wait. Returns false if none waits, delayed ones excepted.
    pub(crate) fn mark(&self, number: u32) -> bool {
        let is_waiting = {
            let queue = self.queue();
            !queue.order.is_empty() || queue.sending.is_some()
        };
        if is_waiting {
            self.send(Notice::Sent(number));
        }
        is_waiting
    }

    /// Returns true if a notification that waits, or is being sent, is about one of these nodes or names in them.
    pub(crate) fn concern(&self, nodes: &[NodeId]) -> bool {
        if nodes.is_empty() {
            return false;
        }
        let queue = self.queue();
        queue.order.iter().chain(&queue.sending).any(|notice| match notice {
            Notice::NodeChanged(node) | Notice::ListingChanged(node) => nodes.contains(node),
            Notice::NameChanged(directory, _) => nodes.contains(directory),
            Notice::Forget(node, directory, _) => nodes.contains(node) || nodes.contains(directory),
            Notice::NamesChanged | Notice::Anchor(..) | Notice::Sent(_) => false,
        })
    }

    /// Drops all notifications, refuses further ones and ends the thread.
    pub(crate) fn close(&self) {
        let mut queue = self.queue();
        *queue = Queue { is_closed: true, ..Queue::default() };
        self.changed.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next step; at most until `due`, if it is set.
    pub(crate) fn next(&self, due: Option<Instant>) -> Next {
        let mut queue = self.queue();
        queue.sending = None;
        loop {
            if queue.is_closed {
                return Next::End;
            }
            let now = Instant::now();
            if std::mem::take(&mut queue.is_woken) || due.is_some_and(|due| due <= now) {
                return Next::CloseIdle;
            }
            while let Some((_, notice)) = queue.later.pop_front_if(|(at, _)| *at <= now) {
                if queue.waiting.insert(notice.clone()) {
                    queue.order.push_back(notice);
                }
            }
            if let Some(notice) = queue.order.pop_front() {
                queue.waiting.remove(&notice);
                queue.sending = Some(notice.clone());
                return Next::Notify(notice);
            }
            let later = queue.later.front().map(|(at, _)| *at);
            queue = match due.into_iter().chain(later).min() {
                Some(due) => {
                    let wait = due.saturating_duration_since(now);
                    self.changed.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_waits_once() {
        let notices = Notices::default();
        let (one, other) = (Notice::NodeChanged(NodeId(1)), Notice::NodeChanged(NodeId(2)));
        for notice in [&one, &other, &one] {
            notices.send(notice.clone());
        }
        assert_eq!(notices.next(None), Next::Notify(one.clone()));
        notices.send(one.clone());
        assert_eq!(notices.next(None), Next::Notify(other));
        assert_eq!(notices.next(None), Next::Notify(one.clone()));
        notices.close();
        notices.send(one);
        assert_eq!(notices.next(None), Next::End);
    }

    #[test]
    fn a_notice_can_be_cancelled() {
        let notices = Notices::default();
        notices.send(Notice::NodeChanged(NodeId(1)));
        notices.send(Notice::NodeChanged(NodeId(2)));
        notices.send_later(Notice::NodeChanged(NodeId(1)));
        assert!(notices.cancel(NodeId(1)) && !notices.cancel(NodeId(1)));
        assert_eq!(notices.next(None), Next::Notify(Notice::NodeChanged(NodeId(2))));
        assert_eq!(notices.next(Some(Instant::now())), Next::CloseIdle);
        notices.queue().sending = None;
        assert!(notices.is_idle());
        notices.send(Notice::NodeChanged(NodeId(1)));
        assert_eq!(notices.next(None), Next::Notify(Notice::NodeChanged(NodeId(1))));
    }

    #[test]
    fn a_mark_follows_what_waits() {
        let notices = Notices::default();
        assert!(!notices.mark(1), "nothing waits");
        let (directory, name) = (NodeId(1), Notice::NameChanged(NodeId(1), b"name".as_slice().into()));
        notices.send(name.clone());
        assert!(notices.concern(&[NodeId(2), directory]) && !notices.concern(&[NodeId(2)]) && !notices.concern(&[]));
        assert!(notices.mark(2));
        assert_eq!(notices.next(None), Next::Notify(name));
        assert!(notices.concern(&[directory]), "it is being sent");
        assert_eq!(notices.next(None), Next::Notify(Notice::Sent(2)));
        assert!(!notices.concern(&[directory]));
    }

    #[test]
    fn a_due_check_precedes_notifications() {
        let notices = Notices::default();
        notices.send(Notice::NamesChanged);
        assert_eq!(notices.next(Some(Instant::now())), Next::CloseIdle);
        notices.wake();
        assert_eq!(notices.next(None), Next::CloseIdle);
        assert_eq!(notices.next(None), Next::Notify(Notice::NamesChanged));
        let soon = Instant::now() + std::time::Duration::from_millis(5);
        assert_eq!(notices.next(Some(soon)), Next::CloseIdle);
        assert!(Instant::now() >= soon);
    }
}
