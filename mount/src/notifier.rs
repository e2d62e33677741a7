//! What the kernel is told without having asked, from a thread of its own.
//!
//! While the kernel takes a notification in it may wait for a lock whose holder waits for an answer
//! of ours. So whoever notices a change only puts it into a queue; the thread that tells the kernel
//! may wait, since nothing waits for it. The queue holds each notice once, so it never grows beyond
//! what the table has records for.

use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headwater_abi::{Kind, Path};
use headwater_fuse::init::flag;
use headwater_fuse::{Device, NodeId};

use crate::original::first::is_given;
use crate::view::View;
use crate::worker::Connection;

/// One notification.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Notice {
    /// Attributes and pages of a node are out of date.
    NodeChanged(NodeId),
    /// A name of a directory may lead to something else.
    NameChanged(NodeId, Box<[u8]>),
    /// A directory's attributes and names are out of date.
    ListingChanged(NodeId),
    /// Any name may lead to something else, or to something.
    NamesChanged,
    /// A complete small file: its pages are put into the kernel's cache.
    Store(NodeId, Path),
    /// A node that nobody uses need not be remembered: its directory and name.
    Forget(NodeId, NodeId, Box<[u8]>),
}

/// Notices on their way.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// When a notice is sent about a node that is being read: once that is answered. The kernel would not
/// believe what an answer says of the node's size if a notice had come meanwhile.
const LATER: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<Notice>,
    /// To be put in order at their times.
    later: VecDeque<(Instant, Notice)>,
    waiting: HashSet<Notice>,
    is_woken: bool,
    is_closed: bool,
    /// The kernel is being told something.
    is_telling: bool,
}

/// What the thread is to do next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Tell(Notice),
    /// Look after what is kept open.
    Tend,
    End,
}

impl Notices {
    /// Puts a notice into the queue, unless it waits there already. Never waits.
    pub(crate) fn send(&self, notice: Notice) {
        let mut queue = self.queue();
        if !queue.is_closed && queue.waiting.insert(notice.clone()) {
            queue.order.push_back(notice);
            self.changed.notify_one();
        }
    }

    /// Puts a notice into the queue some moments later.
    fn send_later(&self, notice: Notice) {
        let mut queue = self.queue();
        if !queue.is_closed {
            queue.later.push_back((Instant::now() + LATER, notice));
            self.changed.notify_one();
        }
    }

    /// A node's attributes and pages need no notice any more. False if there was none in the queue.
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

    /// A node's notice, if it is in the queue, is sent some moments from now.
    pub(crate) fn postpone(&self, node: NodeId) {
        if self.cancel(node) {
            self.send_later(Notice::NodeChanged(node));
        }
    }

    /// Has the thread look after what is kept open, soon.
    pub(crate) fn wake(&self) {
        self.queue().is_woken = true;
        self.changed.notify_one();
    }

    /// Whether the kernel has been told all that was sent.
    pub(crate) fn is_idle(&self) -> bool {
        let queue = self.queue();
        queue.order.is_empty() && queue.later.is_empty() && !queue.is_telling
    }

    /// Nothing more is taken, and the thread ends.
    pub(crate) fn close(&self) {
        let mut queue = self.queue();
        *queue = Queue { is_closed: true, ..Queue::default() };
        self.changed.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next thing to do; at most until `due`, if there is something to look after.
    fn next(&self, due: Option<Instant>) -> Next {
        let mut queue = self.queue();
        queue.is_telling = false;
        loop {
            if queue.is_closed {
                return Next::End;
            }
            let now = Instant::now();
            if std::mem::take(&mut queue.is_woken) || due.is_some_and(|due| due <= now) {
                return Next::Tend;
            }
            while let Some((_, notice)) = queue.later.pop_front_if(|(at, _)| *at <= now) {
                if queue.waiting.insert(notice.clone()) {
                    queue.order.push_back(notice);
                }
            }
            if let Some(notice) = queue.order.pop_front() {
                queue.waiting.remove(&notice);
                queue.is_telling = true;
                return Next::Tell(notice);
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

/// Tells the kernel what is in the view's queue until that is closed. Also closes originals that
/// nobody has written to for a while.
pub(crate) fn run(connection: &Connection) {
    let Some(device) = connection.devices.first() else { return };
    let view = &connection.view;
    let mut due = None;
    loop {
        match view.notices.next(due) {
            Next::Tell(notice) => {
                if let Err(error) = tell(view, device, &notice) {
                    tracing::debug!(?notice, %error, "the kernel did not take a notice");
                }
            }
            Next::Tend => {
                let now = Instant::now();
                due = view.originals.files.close_idle(now).map(|left| now + left);
            }
            Next::End => return,
        }
    }
}

/// `path` has gone live, and with `tree` everything below it: what the kernel remembers of it may be
/// wrong. To be called once that is published. `is_read`: somebody waits for a part of it, who will be
/// given the original's; nor is a node told of at once of which nothing was given out, since its first READ may
/// be on its way.
pub(crate) fn gone_live(view: &View, path: &Path, tree: bool, is_read: bool) {
    if tree {
        view.has_live_trees.store(true, std::sync::atomic::Ordering::Relaxed);
    }
    match view.node_of(path) {
        Some(node) if is_read || !is_given(view, node, path) => view.notices.send_later(Notice::NodeChanged(node)),
        Some(node) => view.notices.send(Notice::NodeChanged(node)),
        None => {}
    }
    if let Some(directory) = path.parent().and_then(|parent| view.node_of(&parent)) {
        view.notices.send(Notice::NameChanged(directory, path.name().into()));
        view.notices.send(Notice::ListingChanged(directory));
    }
}

fn tell(view: &View, device: &Device, notice: &Notice) -> std::io::Result<()> {
    match notice {
        // Pages of a directory are its listing.
        Notice::NodeChanged(node) | Notice::ListingChanged(node) => device.invalidate_node(*node, 0, 0),
        Notice::NameChanged(directory, name) if view.negotiated.has(flag::HAS_EXPIRE_ONLY) => {
            device.invalidate_name(*directory, name, true)
        }
        // To be invalidated is to be unmounted, for what is mounted there, and to lose its place, for
        // a process whose working directory it is.
        Notice::NameChanged(directory, name) if is_directory(view, *directory, name) => Ok(()),
        Notice::NameChanged(directory, name) => device.invalidate_name(*directory, name, false),
        Notice::NamesChanged if !view.negotiated.can_expire_all_names() => Ok(()),
        Notice::NamesChanged => device.expire_all_names(),
        Notice::Store(node, path) => store(view, device, *node, path),
        Notice::Forget(node, directory, name) => match device.prune(&[*node]) {
            Err(_) => device.invalidate_name(*directory, name, false),
            pruned => pruned,
        },
    }
}

fn is_directory(view: &View, directory: NodeId, name: &[u8]) -> bool {
    let path = view.path_of(directory).and_then(|directory| directory.join(name));
    path.is_some_and(|path| {
        view.table(|reader| reader.find(path.as_bytes()).is_some_and(|record| record.kind == Kind::Dir))
    })
}

fn store(view: &View, device: &Device, node: NodeId, path: &Path) -> std::io::Result<()> {
    if view.is_live(path, false) || view.ahead.was_asked(node) {
        return Ok(());
    }
    let bytes = std::fs::read(view.contents.path(node, path))?;
    device.store(node, 0, &bytes)?;
    // It may have gone live meanwhile, and what was said of that may have come before these pages.
    if view.is_live(path, false) { device.invalidate_node(node, 0, 0) } else { Ok(()) }
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
        assert_eq!(notices.next(None), Next::Tell(one.clone()));
        notices.send(one.clone());
        assert_eq!(notices.next(None), Next::Tell(other));
        assert_eq!(notices.next(None), Next::Tell(one.clone()));
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
        assert_eq!(notices.next(None), Next::Tell(Notice::NodeChanged(NodeId(2))));
        assert_eq!(notices.next(Some(Instant::now())), Next::Tend);
        notices.queue().is_telling = false;
        assert!(notices.is_idle());
        notices.send(Notice::NodeChanged(NodeId(1)));
        assert_eq!(notices.next(None), Next::Tell(Notice::NodeChanged(NodeId(1))));
    }

    #[test]
    fn what_is_due_is_not_kept_waiting() {
        let notices = Notices::default();
        notices.send(Notice::NamesChanged);
        assert_eq!(notices.next(Some(Instant::now())), Next::Tend);
        notices.wake();
        assert_eq!(notices.next(None), Next::Tend);
        assert_eq!(notices.next(None), Next::Tell(Notice::NamesChanged));
        let soon = Instant::now() + std::time::Duration::from_millis(5);
        assert_eq!(notices.next(Some(soon)), Next::Tend);
        assert!(Instant::now() >= soon);
    }
}
