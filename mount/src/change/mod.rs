//! Serving what changes the tree: by the original, at once, as the user who asks.
//!
//! Before a path is changed it goes live: the node tells all others, and everybody uses its original
//! from then on. A request is served again after each question, so what it needs to be answered is
//! made sure of before anything is changed.

mod attributes;
mod content;
mod names;

use headwater_abi::{Path, Want};
use headwater_fuse::Operation;
use rustix::io::Errno;

use crate::call::{Call, Demand, Flow};
use crate::original::{Target, target_of};

/// Why an operation was not performed.
enum Stop {
    /// The request fails.
    Fail(Errno),
    /// It waits, or is answered already.
    Flow(Flow),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Fail(errno)
    }
}

/// Serves a writing request.
pub(super) fn serve(call: &Call<'_>) -> Flow {
    if call.attempt.at_once {
        return Flow::Ask(Demand::Patience);
    }
    let result = match call.request.operation {
        Operation::Create { flags, mode, umask, name } => names::create(call, name, flags, mode, umask),
        Operation::Mknod { mode, rdev, umask, name } => names::mknod(call, name, mode, rdev, umask),
        Operation::Mkdir { mode, umask, name } => names::mkdir(call, name, mode, umask),
        Operation::Symlink { name, target } => names::symlink(call, name, target),
        Operation::Link { existing, name } => names::link(call, existing, name),
        Operation::Unlink { name } => names::remove(call, name, false),
        Operation::Rmdir { name } => names::remove(call, name, true),
        Operation::Rename { name, to, to_name, flags } => names::rename(call, name, to, to_name, flags),
        Operation::Setattr(wanted) => attributes::set(call, &wanted),
        Operation::Setxattr { name, value, flags } => attributes::set_xattr(call, name, value, flags),
        Operation::Removexattr { name } => attributes::remove_xattr(call, name),
        Operation::Open { flags } => content::open(call, flags),
        Operation::Write { offset, flags, is_from_cache, data, .. } => {
            content::write(call, offset, flags, is_from_cache, data)
        }
        Operation::Fallocate { offset, bytes, mode, .. } => content::allocate(call, offset, bytes, mode),
        Operation::Fsync { data_only, .. } => content::sync(call, data_only),
        Operation::Fsyncdir { data_only, .. } => content::sync_directory(call, data_only),
        // The kernel copies by reading and writing instead.
        _ => return call.unsupported(),
    };
    match result {
        Ok(flow) | Err(Stop::Flow(flow)) => flow,
        Err(Stop::Fail(errno)) => call.fail(errno),
    }
}

/// The path of the request's node.
fn path_of(call: &Call<'_>) -> Result<Path, Stop> {
    let path = call.view.path_of(call.request.node).ok_or(Errno::STALE)?;
    if call.view.is_hidden(&path) {
        return Err(Errno::ROFS.into());
    }
    Ok(path)
}

/// The request's node, which is about to be changed.
fn live_target(call: &Call<'_>) -> Result<(Path, Target), Stop> {
    let path = path_of(call)?;
    go_live(call, &path, false)?;
    let target = target_of(call, &path)?;
    Ok((path, target))
}

/// Has everybody use the original of `path` from now on, and with `tree` of all below it.
fn go_live(call: &Call<'_>, path: &Path, tree: bool) -> Result<(), Stop> {
    all_go_live(call, &[path], tree)
}

/// As [`go_live`], for several paths. Of what lies too deep for a path to be told, all goes live that is
/// below the lowest directory that can be.
///
/// What the node can't spread, or note, is changed all the same: the job's own file system is the
/// truth.
fn all_go_live(call: &Call<'_>, paths: &[&Path], tree: bool) -> Result<(), Stop> {
    let told = paths.iter().map(|path| (path.reachable(), tree || path.is_deep()));
    let missing: Vec<(Path, bool)> = told.filter(|(path, tree)| !call.view.is_live(path, *tree)).collect();
    let rounds = usize::from(call.attempt.rounds);
    let is_asked = rounds >= paths.len() && call.view.originals.lacks_records();
    if missing.is_empty() || call.has_tried_enough() || is_asked {
        return Ok(());
    }
    let (path, tree) = missing[rounds % missing.len()].clone();
    let want = Want::LIVE | Want::NO_FOLLOW | if tree { Want::TREE } else { Want::empty() };
    Err(Stop::Flow(Flow::Ask(Demand::Want(path, want))))
}
