//! The first step of each change: its path becomes a passthrough path.

use headwater_abi::{Path, Want};
use rustix::io::Errno;

use crate::call::{Call, Demand, Flow};
use crate::source_file::{Target, target_of};

/// Why a change was not made.
pub(super) enum Stop {
    /// The request fails.
    Fail(Errno),
    /// It waits, or has been answered.
    Flow(Flow),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Fail(errno)
    }
}

/// Returns the path of the request's node.
pub(super) fn path_of(call: &Call<'_>) -> Result<Path, Stop> {
    let path = call.view.path_of(call.request.node).ok_or(Errno::STALE)?;
    if call.view.is_hidden(&path) {
        return Err(Errno::ROFS.into());
    }
    Ok(path)
}

/// Returns the request's node, which is about to change.
pub(super) fn passthrough_target(call: &Call<'_>) -> Result<(Path, Target), Stop> {
    let path = path_of(call)?;
    make_passthrough(call, &path, false)?;
    let target = target_of(call, &path)?;
    Ok((path, target))
}

/// Makes `path` a passthrough path on all nodes; with `tree`, also all paths below it.
pub(super) fn make_passthrough(call: &Call<'_>, path: &Path, tree: bool) -> Result<(), Stop> {
    make_all_passthrough(call, &[path], tree)
}

/// As [`make_passthrough`], for several paths. A path that is too long for a message is replaced by its lowest
/// directory that is not, with all below.
///
/// A change that the node can't spread or record is made all the same: the shared file system is authoritative.
pub(super) fn make_all_passthrough(call: &Call<'_>, paths: &[&Path], tree: bool) -> Result<(), Stop> {
    let reachable = paths.iter().map(|path| (path.reachable(), tree || path.is_deep()));
    let missing: Vec<(Path, bool)> = reachable.filter(|(path, tree)| !call.view.is_passthrough(path, *tree)).collect();
    let rounds = usize::from(call.attempt.rounds);
    let is_asked = rounds >= paths.len() && call.view.source_files.lacks_records();
    if missing.is_empty() || call.has_tried_enough() || is_asked {
        return Ok(());
    }
    let (path, tree) = missing[rounds % missing.len()].clone();
    let want = Want::PASSTHROUGH | Want::NO_FOLLOW | if tree { Want::TREE } else { Want::empty() };
    Err(Stop::Flow(Flow::Ask(Demand::Want(path, want))))
}
