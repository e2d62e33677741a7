//! The service of a site export on this node.

use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use headwater_abi::wire::RELEASE;
use headwater_daemon::stats::{NodeStats, PeerStats, Relation};
use headwater_figures::text::milliseconds;
use headwater_fuse::mount::mounted;

use crate::control::find::living;
use crate::control::stats::{of_node, peer_name};
use crate::doctor::check::Check;
use crate::namespace::SUBTYPE;
use crate::site_export::site::Site;

/// How long a mount may take to answer.
const MOUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the statistics of the site's daemon on this node.
pub fn find(site: &Site, store: Option<&Path>) -> Option<NodeStats> {
    let identity = String::from(site.identity());
    let nodes = living(store).into_iter().flat_map(|session| session.nodes);
    nodes.filter_map(|node| of_node(&node).ok()).find(|stats| stats.session == identity)
}

/// Returns the unit of this node.
fn unit(site: &Site) -> &'static str {
    if site.is_reader() { "headwater-serve" } else { "headwater-join" }
}

/// Checks whether the daemon runs, with this release and these lists.
pub fn daemon(site: &Site, stats: Option<&NodeStats>) -> Check {
    const NAME: &str = "daemon";
    let unit = unit(site);
    let Some(stats) = stats else {
        let found = format!("no daemon of the export of {} answers this user", site.export);
        return Check::missing(
            NAME,
            found,
            format!("`systemctl start {unit}`, and `journalctl -u {unit}` for its errors"),
        );
    };
    if stats.ranks != site.ranks() {
        let found = format!("it knows {} nodes, and the lists have {}", stats.ranks, site.ranks());
        let next = if site.is_reader() {
            format!("`systemctl restart {unit}`")
        } else {
            format!("`systemctl stop {unit}; headwater unmount {}; systemctl start {unit}`", site.export)
        };
        return Check::missing(NAME, found, next);
    }
    if stats.version != RELEASE {
        let found = format!("it is of release {}, and this command of {RELEASE}", stats.version);
        return Check::warning(NAME, found, format!("`systemctl restart {unit}`"));
    }
    Check::ok(NAME, format!("process {}, for {}, release {RELEASE}", stats.pid, milliseconds(stats.uptime_ms)))
}

/// Returns whether a reader, or a node between, has proved the key to this node.
pub fn has_parent(stats: &NodeStats) -> bool {
    stats.links.peers.iter().any(|peer| peer.relation == Relation::Parent && peer.is_up)
}

/// Checks whether the directory is mounted, and with a parent whether it answers: without one, its requests wait for a
/// minute, and so would the end of this process.
pub fn mount(at: &Path, has_parent: bool) -> Check {
    const NAME: &str = "mount";
    let shown = at.display();
    let is_mounted = mounted(SUBTYPE).unwrap_or_default().iter().any(|mount| mount.mount_point == at);
    if !is_mounted {
        return Check::missing(NAME, format!("nothing is mounted at {shown}"), "`systemctl restart headwater-join`");
    }
    if !has_parent {
        return Check::ok(NAME, format!("{shown} is mounted; not read, because no reader is linked"));
    }
    let (sender, receiver) = channel();
    let directory = at.to_owned();
    // A mount without its daemon may never answer, so this thread is not waited for.
    thread::spawn(move || sender.send(fs::read_dir(directory).map(|mut entries| entries.next().is_some())));
    let next = "see `headwater stats` for its readers, and `systemctl status headwater-join`";
    match receiver.recv_timeout(MOUNT_TIMEOUT) {
        Ok(Ok(_)) => Check::ok(NAME, format!("{shown} answers")),
        Ok(Err(error)) => Check::missing(NAME, format!("{shown} can't be read: {error}"), next),
        Err(_) => Check::missing(NAME, format!("{shown} has not answered for {} s", MOUNT_TIMEOUT.as_secs()), next),
    }
}

/// Checks the daemon's links: a node's to its readers, a reader's to its nodes.
pub fn links(site: &Site, stats: &NodeStats) -> Check {
    const NAME: &str = "links";
    let links = &stats.links;
    if site.is_reader() {
        let found = format!("{} nodes are linked; {} are this reader's own", links.up, links.children_expected);
        return Check::ok(NAME, found);
    }
    let shown = |peer: &PeerStats| {
        format!("{} {} ({})", peer.role.name(), peer_name(peer), peer.address.as_deref().unwrap_or("no address"))
    };
    let parents = || links.peers.iter().filter(|peer| peer.relation == Relation::Parent);
    if let Some(peer) = parents().find(|peer| peer.is_up) {
        return Check::ok(NAME, format!("served by {} for {}", shown(peer), milliseconds(peer.since_ms)));
    }
    let causes =
        parents().map(|peer| format!("{}: {}", shown(peer), peer.failure.as_deref().unwrap_or("no answer yet")));
    let causes: Vec<String> = causes.collect();
    let found = if causes.is_empty() { "none is dialled".to_owned() } else { causes.join("; ") };
    Check::missing(NAME, format!("none to a reader: {found}"), "repair what the lines of readers name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mounted_is_missing() {
        let scratch = tempfile::tempdir().unwrap();
        let check = mount(scratch.path(), true);
        assert!(check.found.starts_with("nothing is mounted at") && check.next.is_some(), "{check:?}");
    }
}
