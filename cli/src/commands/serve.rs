//! `headwater serve`: runs a reader of a site export.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use headwater_daemon::protocol::{Answer, Command};
use headwater_daemon::stats::LinkStats;
use headwater_fuse::init::Opening;

use crate::control::client;
use crate::message::log;
use crate::session::daemons::{Alone, Daemons};
use crate::session::directory::Session;
use crate::session::events::{Event, Interrupted};
use crate::session::prepare;
use crate::session::signals;
use crate::session::store::{self, ReadBy};
use crate::site_export::export::check_export;
use crate::site_export::notify;
use crate::site_export::options::ServeOptions;
use crate::site_export::site::Site;

/// How often the status is reported to the service manager.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);

/// Serves until a signal ends it; returns the exit status.
///
/// # Errors
/// It can't serve, or its daemon has died.
pub fn serve(options: &ServeOptions) -> Result<u8> {
    let (sender, events) = channel();
    signals::watch(sender.clone())?;
    let site = Site::new(&options.site, &options.local)?;
    ensure!(
        site.is_reader(),
        "{} is not a reader of this site ({}): run `headwater join` on this node",
        site.name(),
        options.site.readers
    );
    check_export(Path::new(&site.export))?;
    let storage = &options.local.storage;
    let store = store::open(storage.store.as_deref(), storage.store_max, 1, ReadBy::Daemon)?;
    let listener = site.listen(options.local.listen)?;
    let mut session = Session::create(&store.directory, 1)?;
    prepare::prepare_mount(&session.node(0))?;
    let config = site.config(&mut session, store.bytes_max, &options.local);
    let alone =
        Alone { config, disk: store.disk, listener, via: None, opening: Opening::None, verbose: options.local.verbose };
    let mut daemons = Daemons::start_alone(&session, alone, &sender)?;
    if let Err(error) = daemons.wait_ready(&events) {
        drop(daemons);
        let Interrupted(_) = error.downcast()?;
        return Ok(0);
    }
    let (readers, nodes) = site.counts();
    let serves = format!("{} serves {} to {nodes} nodes, with {readers} readers in all", site.name(), site.export);
    notify::ready(&serves);
    log(&serves);
    wait(daemons, &events, &Linked { serves, socket: session.node(0).control() })
}

/// Waits for a signal that ends programs. A daemon's death is an error, so that the service manager restarts this.
fn wait(mut daemons: Daemons, events: &Receiver<Event>, linked: &Linked) -> Result<u8> {
    while !daemons.have_ended() {
        match events.recv_timeout(STATUS_INTERVAL) {
            Ok(Event::Daemon(output)) => daemons.note_output(&output),
            Ok(event) if event.interrupts().is_none() => {}
            Err(RecvTimeoutError::Timeout) => linked.report(),
            _ => {
                daemons.stop(events);
                return Ok(0);
            }
        }
    }
    bail!("the daemon has died; start `headwater serve` again, as its service does by itself")
}

/// What a reader's status has.
struct Linked {
    serves: String,
    /// The daemon's control socket.
    socket: PathBuf,
}

impl Linked {
    /// Reports how many nodes have a link.
    fn report(&self) {
        if notify::is_wanted()
            && let Ok(Answer::Stats(stats)) = client::ask(&self.socket, Command::Stats)
        {
            let LinkStats { up, children_expected, .. } = stats.links;
            notify::status(&format!("{}; {up} linked, {children_expected} are its own", self.serves));
        }
    }
}
