//! Sends notifications to the kernel, from a thread of its own: a notification may block, and no other thread depends
//! on this one.

use std::sync::atomic::Ordering;
use std::time::Instant;

use headwater_abi::{Kind, Path};
use headwater_fuse::init::flag;
use headwater_fuse::{Device, NodeId};

use crate::source_file::Target;
use crate::source_file::unread::may_have_served;
use crate::state::notices::{Next, Notice};
use crate::view::View;
use crate::worker::{Connection, RequestDispatcher};

/// Files below a directory that are opened when another node changes it. Each takes a request to the shared file system.
const ANCHORS_OF_TREE_MAX: usize = 256;

/// Sends the notifications of the view's queue until the queue is closed. Also closes idle source files.
pub(crate) fn run(connection: &Connection, dispatcher: &RequestDispatcher) {
    let Some(device) = connection.devices.first() else { return };
    let view = &connection.view;
    let mut due = None;
    loop {
        match view.notices.next(due) {
            Next::Notify(Notice::Sent(number)) => dispatcher.settled(number),
            Next::Notify(Notice::Anchor(node, path)) => anchor(view, node, &path),
            Next::Notify(notice) => {
                if let Err(error) = notify(view, device, &notice) {
                    tracing::debug!(?notice, %error, "the kernel refused a notification");
                }
            }
            Next::CloseIdle => {
                let now = Instant::now();
                due = view.source_files.files.close_idle(now).map(|left| now + left);
            }
            Next::End => return,
        }
    }
}

/// Notifies the kernel that `path`, and with `tree` all below it, is passthrough; its caches may be wrong. Call it
/// after the table has been published. If `is_read`, a READ that will be answered from the source file is pending, and
/// the notification is delayed. It is also delayed if no byte has been served, because the first READ may be under way.
pub(crate) fn became_passthrough(view: &View, path: &Path, tree: bool, is_read: bool) {
    if let Some(node) = view.tables.node_of(path) {
        keep_reachable(view, node, path);
        node_changed(view, node, path, is_read);
    }
    if let Some(directory) = path.parent().and_then(|parent| view.tables.node_of(&parent)) {
        view.notices.send(Notice::NameChanged(directory, path.name().into()));
        view.notices.send(Notice::ListingChanged(directory));
    }
    if tree {
        view.has_passthrough_trees.store(true, Ordering::Relaxed);
        tree_changed(view, path);
    }
}

/// Notifies the kernel about all that it has below `path`: changes there are not announced any more.
fn tree_changed(view: &View, path: &Path) {
    let nodes = view.nodes_below(path);
    for (below, node) in nodes.iter().take(ANCHORS_OF_TREE_MAX) {
        keep_reachable(view, *node, below);
    }
    for (below, node) in &nodes {
        node_changed(view, *node, below, false);
        let directory =
            below.parent().and_then(|parent| nodes.get(&parent).copied().or_else(|| view.tables.node_of(&parent)));
        if let Some(directory) = directory {
            view.notices.send(Notice::NameChanged(directory, below.name().into()));
        }
    }
    for (directory, below) in view.absent.below(path) {
        view.notices.send(Notice::NameChanged(directory, below.name().into()));
    }
}

/// Has the source file of a node opened before another node changes what its name leads to: a process here may have it
/// open. That node waits until it is done.
fn keep_reachable(view: &View, node: NodeId, path: &Path) {
    let is_file = view.tables.read(|tables| {
        let record = tables.record(node.0);
        record.is_some_and(|record| record.lookups() > 0 && record.kind == Kind::File)
    });
    if is_file && view.has_other_nodes && view.config.is_writable && view.has_source {
        view.notices.send(Notice::Anchor(node, path.clone()));
    }
}

fn anchor(view: &View, node: NodeId, path: &Path) {
    if let Err(error) = Target::of(view, node, path) {
        tracing::debug!(%path, %error, "a file that another node changes can't be opened");
    }
}

fn node_changed(view: &View, node: NodeId, path: &Path, is_read: bool) {
    let is_file = view.tables.read(|tables| tables.record(node.0).is_none_or(|record| record.kind != Kind::Dir));
    if is_file && (is_read || !may_have_served(view, node, path)) {
        view.notices.send_later(Notice::NodeChanged(node));
    } else {
        view.notices.send(Notice::NodeChanged(node));
    }
}

fn notify(view: &View, device: &Device, notice: &Notice) -> std::io::Result<()> {
    match notice {
        // A directory's pages are its listing.
        Notice::NodeChanged(node) | Notice::ListingChanged(node) => device.invalidate_node(*node, 0, 0),
        Notice::NameChanged(directory, name) if view.config.negotiated.has(flag::HAS_EXPIRE_ONLY) => {
            device.invalidate_name(*directory, name, true)
        }
        // Invalidating a directory's entry would unmount what is mounted there and detach it as a working directory.
        Notice::NameChanged(directory, name) if is_directory(view, *directory, name) => Ok(()),
        Notice::NameChanged(directory, name) => device.invalidate_name(*directory, name, false),
        Notice::Anchor(..) | Notice::Sent(_) => Ok(()),
        Notice::NamesChanged if !view.config.negotiated.can_expire_all_names() => Ok(()),
        Notice::NamesChanged => device.expire_all_names(),
        Notice::Forget(node, directory, name) => match device.prune(&[*node]) {
            Err(_) => device.invalidate_name(*directory, name, false),
            pruned => pruned,
        },
    }
}

fn is_directory(view: &View, directory: NodeId, name: &[u8]) -> bool {
    let path = view.path_of(directory).and_then(|directory| directory.join(name));
    path.is_some_and(|path| {
        view.tables.read(|reader| reader.find(path.as_bytes()).is_some_and(|record| record.kind == Kind::Dir))
    })
}
