//! `headwater join`: shows a site export on this node.
//!
//! The mount belongs to its supervisor, which this process starts and watches. This process can be restarted or
//! killed while programs use the mount.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use headwater_daemon::protocol::{Answer, Command};
use headwater_store::layout::NodeDir;
use headwater_supervisor::client::{Request, ask};
use headwater_supervisor::{MountVia, Via};
use signal_hook::consts::{SIGHUP, SIGUSR1};

use crate::control::client;
use crate::message::log;
use crate::session::daemons::{Alone, Daemons};
use crate::session::directory::Session;
use crate::session::events::{Event, Interrupted};
use crate::session::mounts::{existing_directory, node_of, wait_until_gone};
use crate::session::prepare;
use crate::session::signals;
use crate::session::stale_mounts::remove_stale_mounts;
use crate::session::store::{self, ReadBy};
use crate::site_export::notify;
use crate::site_export::options::JoinOptions;
use crate::site_export::parents::Parents;
use crate::site_export::site::Site;

/// How often the mount is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The same until a reader has proved the key.
const START_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Mounts, or takes over an existing mount, and watches it; returns the exit status.
///
/// # Errors
/// The directory can't be mounted, or the mount is no longer served.
pub fn join(options: &JoinOptions) -> Result<u8> {
    let (sender, events) = channel();
    signals::watch(sender.clone())?;
    let site = Site::new(&options.site, &options.local)?;
    ensure!(!site.is_reader(), "{} is a reader of this site: run `headwater serve` on this node", site.name());
    remove_stale_mounts();
    let at = options.at.as_deref().unwrap_or(Path::new(&site.export));
    let at = existing_directory(at)?;
    let node = match node_of(&at, options.local.storage.store.as_deref()) {
        Some(node) => take_over(&site, &at, node)?,
        None => match mount(options, &site, &at, &sender, &events) {
            Ok(node) => node,
            Err(error) => {
                let Interrupted(_) = error.downcast()?;
                return Ok(0);
            }
        },
    };
    watch(&site, &at, &node, &events)
}

/// Has a daemon of this executable take over the mount at `at`. Its address and its list of nodes stay as mounted.
fn take_over(site: &Site, at: &Path, node: NodeDir) -> Result<NodeDir> {
    let shown = at.display();
    // Without a daemon, the supervisor can restart it.
    if let Ok(Answer::Stats(stats)) = client::ask(&node.control(), Command::Stats) {
        ensure!(
            stats.session == String::from(site.identity()),
            "{shown} shows another export or session; `headwater unmount {shown}` first, or name another directory with --at"
        );
        if stats.ranks != site.ranks() {
            log(format_args!(
                "warning: {shown} was mounted with {} nodes, and the lists name {}; run `headwater unmount {shown}`, and the next \
                 start uses the new lists",
                stats.ranks,
                site.ranks()
            ));
        }
    }
    ask(&node.supervisor(), Request::Restart).with_context(|| format!("the mount at {shown} does not answer"))?;
    log(format_args!("{} took over the mount at {shown}", site.name()));
    Ok(node)
}

/// Mounts; returns the node's directory.
fn mount(
    options: &JoinOptions,
    site: &Site,
    at: &Path,
    sender: &Sender<Event>,
    events: &Receiver<Event>,
) -> Result<NodeDir> {
    let storage = &options.local.storage;
    let store = store::open(storage.store.as_deref(), storage.store_max, 1, ReadBy::Daemon)?;
    let listener = site.listen(options.local.listen)?;
    let mut session = Session::create(&store.directory, 1)?;
    let node = session.node(0);
    prepare::prepare_mount(&node)?;
    let config = site.config(&mut session, store.bytes_max, &options.local);
    let via = MountVia {
        mount_point: at.to_owned(),
        root: site.export.clone(),
        hidden: Vec::new(),
        allows_others: true,
        is_beside_audit: false,
        is_own_directory: false,
    };
    let (via, opening) = (Some(Via::Mount(via)), options.opening.mode());
    let alone = Alone { config, disk: store.disk, listener, via, opening, verbose: options.local.verbose };
    let mut daemons = Daemons::start_alone(&session, alone, sender)?;
    if let Err(error) = daemons.wait_ready(events) {
        // Unmounts before the session's directory is removed.
        drop(daemons);
        return Err(error);
    }
    daemons.detach();
    session.detach();
    log(format_args!("{} shows {} at {}", site.name(), site.export, at.display()));
    Ok(node)
}

/// Waits for a signal or the mount's end. Reports that the service is ready once a reader has proved the key, and
/// readers that go and come back.
fn watch(site: &Site, at: &Path, node: &NodeDir, events: &Receiver<Event>) -> Result<u8> {
    let (socket, mut readers) = (node.supervisor(), Readers::new(site, at));
    loop {
        match events.recv_timeout(readers.check_interval()) {
            Ok(Event::Signal(signal)) if signal.number == SIGHUP => return Ok(0),
            Ok(Event::Signal(signal)) if signal.number == SIGUSR1 => {
                if let Err(error) = ask(&socket, Request::Restart) {
                    log(format_args!("warning: the daemon at {} can't be replaced: {error}", at.display()));
                }
            }
            Ok(event) if event.interrupts().is_some() => {
                ask(&socket, Request::Detach).with_context(|| format!("{} can't be unmounted", at.display()))?;
                wait_until_gone(at)?;
                return Ok(0);
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("signals are no longer watched; start `headwater join` again"),
            Err(RecvTimeoutError::Timeout) => {
                ask(&socket, Request::Status).with_context(|| {
                    format!("the mount at {} has ended; a start of `headwater join` mounts it again", at.display())
                })?;
                readers.check(node);
            }
        }
    }
}

/// The readers of this node, and what was reported of them.
struct Readers {
    /// What is shown where.
    shows: String,
    parents: Parents,
    is_ready: bool,
    status: String,
}

impl Readers {
    fn new(site: &Site, at: &Path) -> Readers {
        let shows = format!("{} at {}", site.export, at.display());
        Readers { shows, parents: Parents::new(Instant::now()), is_ready: false, status: String::new() }
    }

    fn check_interval(&self) -> Duration {
        if self.is_ready { CHECK_INTERVAL } else { START_CHECK_INTERVAL }
    }

    /// Asks the daemon, and reports what is new. Another daemon may just be starting, and is asked the next time.
    fn check(&mut self, node: &NodeDir) {
        let Ok(Answer::Stats(stats)) = client::ask(&node.control(), Command::Stats) else { return };
        let update = self.parents.note(Instant::now(), &stats.links);
        update.lines.iter().for_each(log);
        let status = format!("{}, {}", self.shows, update.status);
        if update.is_ready {
            self.is_ready = true;
            notify::ready(&status);
        } else if status != self.status {
            notify::status(&status);
        }
        self.status = status;
    }
}
