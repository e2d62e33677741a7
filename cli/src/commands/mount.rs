//! `headwater mount`: shows a directory through Headwater at another path.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context, Result, ensure};
use headwater_daemon::{Kinds, LinkProtection, Policy};
use headwater_supervisor::{MountVia, Via};

use crate::mount::options::MountOptions;
use crate::session::daemons::{Daemons, Settings, local_names};
use crate::session::directory::Session;
use crate::session::events::{Event, Interrupted};
use crate::session::mounts::existing_directory;
use crate::session::opened::Opened;
use crate::session::prepare;
use crate::session::records::Records;
use crate::session::signals;
use crate::session::stale_mounts::remove_stale_mounts;
use crate::session::store::{self, ReadBy};
use crate::topology;

/// Virtual file systems of the kernel, which are not served.
const KERNELS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Mounts, and returns once the mount serves; in the foreground, once it has ended. Returns the exit status.
///
/// # Errors
/// The reason why nothing is mounted.
pub fn mount(options: &MountOptions) -> Result<u8> {
    let arrangement = topology::arrange(&options.shape, options.nodes)?;
    remove_stale_mounts();
    let (sender, events) = channel();
    signals::watch(sender.clone())?;
    let mount_point = existing_directory(&options.mount_point)?;
    let root = options.root.canonicalize().with_context(|| format!("{} can't be shown", options.root.display()))?;
    ensure!(root.is_dir(), "{} is not a directory", root.display());
    let store =
        store::open(options.storage.store.as_deref(), options.storage.store_max, options.nodes, ReadBy::Daemon)?;
    let session = Session::create(&store.directory, options.nodes)?;
    let hidden = hidden(&root, &mount_point, session.base());
    let scope = scope(&root, &options.exclude, &hidden)?;
    (0..options.nodes).try_for_each(|node| prepare::prepare_mount(&session.node(node)))?;
    let via = |node: u32| {
        Via::Mount(MountVia {
            mount_point: node_mount_point(&mount_point, node, options.nodes),
            root: root.to_string_lossy().into_owned(),
            hidden: hidden.clone(),
            allows_others: options.allow_other,
            is_beside_audit: false,
            is_own_directory: options.nodes > 1,
        })
    };
    let settings = Settings {
        arrangement: &arrangement,
        policy: Policy::Adaptive,
        store: &store,
        numa_replicas: None,
        scope,
        opened: &Opened::default(),
        whole_file_bytes_max: options.storage.whole_file_max,
        stored_file_bytes_max: options.storage.stored_file_max,
        serve: Kinds::all(),
        follows_fork: true,
        cache: options.storage.cache(),
        via: Some(&via),
        opening: options.opening.mode(),
        verbose: options.verbose,
        is_detached: !options.foreground,
        preload: None,
        records: Records::None,
        reports: false,
        fabric: None,
        node_names: local_names(&arrangement),
        link_protection: LinkProtection::Encrypt,
        rails: None,
    };
    for node in (0..options.nodes).filter(|_| options.nodes > 1) {
        let directory = node_mount_point(&mount_point, node, options.nodes);
        std::fs::create_dir_all(&directory).with_context(|| format!("{} can't be made", directory.display()))?;
    }
    let mut daemons = Daemons::start(&session, &settings, &sender)?;
    match daemons.wait_ready(&events) {
        Ok(()) => {}
        Err(error) => {
            // Unmounts before the session's directory is removed.
            drop(daemons);
            let Interrupted(number) = error.downcast()?;
            return Ok((128 + number) as u8);
        }
    }
    if options.foreground {
        stay(daemons, &events);
    } else {
        daemons.detach();
        session.detach();
    }
    Ok(0)
}

/// Waits for a signal that ends programs, or for the mounts' end.
fn stay(mut daemons: Daemons, events: &Receiver<Event>) {
    while !daemons.have_ended() {
        match events.recv() {
            Ok(Event::Daemon(output)) => daemons.note_output(&output),
            Ok(event) if event.interrupts().is_none() => {}
            _ => break,
        }
    }
    daemons.stop(events);
}

/// Returns a node's mount point.
fn node_mount_point(mount_point: &Path, node: u32, nodes: u32) -> PathBuf {
    if nodes == 1 { mount_point.to_owned() } else { mount_point.join(format!("n{node}")) }
}

/// Returns the directories within `root` that are shown empty: those of the kernel, and those that would show the
/// mount in itself.
fn hidden(root: &Path, mount_point: &Path, stores: &Path) -> Vec<String> {
    let all = KERNELS.iter().map(Path::new).chain([mount_point, stores]);
    let inside = all.filter(|directory| directory.starts_with(root) && *directory != root);
    inside.map(|directory| directory.to_string_lossy().into_owned()).collect()
}

/// Returns the scope: the root without excluded and hidden directories.
fn scope(root: &Path, exclude: &[PathBuf], hidden: &[String]) -> Result<Vec<(bool, String)>> {
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).with_context(|| format!("{}: names in the scope are UTF-8", path.display()))
    };
    let mut scope = vec![(true, text(root)?)];
    for directory in exclude {
        let canonical =
            directory.canonicalize().with_context(|| format!("{} can't be excluded", directory.display()))?;
        scope.push((false, text(&canonical)?));
    }
    scope.extend(hidden.iter().map(|directory| (false, directory.clone())));
    Ok(scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_show_itself_is_hidden() {
        let check = |root: &str, mount_point: &str, expected: &[&str]| {
            let hidden = hidden(Path::new(root), Path::new(mount_point), Path::new("/dev/shm/headwater-0"));
            assert_eq!(hidden, expected, "{root}");
        };
        check("/", "/mnt/hw", &["/proc", "/sys", "/dev", "/mnt/hw", "/dev/shm/headwater-0"]);
        check("/lustre", "/mnt/hw", &[]);
        check("/lustre", "/lustre/hw", &["/lustre/hw"]);
        check("/dev/shm", "/mnt/hw", &["/dev/shm/headwater-0"]);
        check("/mnt/hw", "/mnt/hw", &[]);
    }

    #[test]
    fn the_scope_is_the_root_without_what_is_excluded() {
        let scope = scope(Path::new("/"), &["/tmp".into()], &["/proc".into()]).unwrap();
        assert_eq!(scope, [(true, "/".into()), (false, "/tmp".into()), (false, "/proc".into())]);
        assert!(super::scope(Path::new("/"), &["/nonexistent".into()], &[]).is_err());
    }

    #[test]
    fn each_of_several_nodes_has_a_directory() {
        assert_eq!(node_mount_point(Path::new("/m"), 0, 1), Path::new("/m"));
        assert_eq!(node_mount_point(Path::new("/m"), 1, 2), Path::new("/m/n1"));
    }
}
