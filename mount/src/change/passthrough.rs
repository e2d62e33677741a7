//! What every change begins with: the path that it is about, served from the original from now on.

use headwater_abi::{Path, Want};
use rustix::io::Errno;

use crate::call::{Call, Demand, Flow};
use crate::source_file::{Target, target_of};

/// Why an operation was not performed.
pub(super) enum Stop {
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

/// The path of the request's node.
pub(super) fn path_of(call: &Call<'_>) -> Result<Path, Stop> {
    let path = call.view.path_of(call.request.node).ok_or(Errno::STALE)?;
    if call.view.is_hidden(&path) {
        return Err(Errno::ROFS.into());
    }
    Ok(path)
}

/// The request's node, which is about to be changed.
pub(super) fn passthrough_target(call: &Call<'_>) -> Result<(Path, Target), Stop> {
    let path = path_of(call)?;
    make_passthrough(call, &path, false)?;
    let target = target_of(call, &path)?;
    Ok((path, target))
}

/// Has everybody use the original of `path` from now on, and with `tree` of all below it.
pub(super) fn make_passthrough(call: &Call<'_>, path: &Path, tree: bool) -> Result<(), Stop> {
    make_all_passthrough(call, &[path], tree)
}

/// As [`make_passthrough`], for several paths. Of what lies too deep for a path to be told, all goes live that is
/// below the lowest directory that can be.
///
/// What the node can't spread, or note, is changed all the same: the job's own file system is the
/// truth.
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
