//! `headwater serve`: runs a reader of a site export.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context, Result, bail, ensure};

use crate::message::log;
use crate::session::daemons::{Alone, Daemons};
use crate::session::directory::Session;
use crate::session::events::{Event, Interrupted};
use crate::session::prepare;
use crate::session::signals;
use crate::session::store::{self, ReadBy};
use crate::site_export::notify;
use crate::site_export::options::ServeOptions;
use crate::site_export::site::Site;

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
    let alone = Alone { config, disk: store.disk, listener, via: None, opening: None, verbose: options.local.verbose };
    let mut daemons = Daemons::start_alone(&session, alone, &sender)?;
    if let Err(error) = daemons.wait_ready(&events) {
        drop(daemons);
        let Interrupted(_) = error.downcast()?;
        return Ok(0);
    }
    notify::ready();
    let (readers, nodes) = site.counts();
    log(format_args!("{} serves {} to {nodes} nodes, with {readers} readers in all", site.name(), site.export));
    wait(daemons, &events)
}

/// Waits for a signal that ends programs. A daemon's death is an error, so that the service manager restarts this.
fn wait(mut daemons: Daemons, events: &Receiver<Event>) -> Result<u8> {
    while !daemons.have_ended() {
        match events.recv() {
            Ok(Event::Daemon(output)) => daemons.note_output(&output),
            Ok(event) if event.interrupts().is_none() => {}
            _ => {
                daemons.stop(events);
                return Ok(0);
            }
        }
    }
    bail!("the daemon has died; start `headwater serve` again, as its service does by itself")
}

/// Checks that all users can enter the exported directory.
fn check_export(export: &Path) -> Result<()> {
    let shown = export.display();
    let canonical = export.canonicalize().with_context(|| format!("--export {shown} can't be read"))?;
    ensure!(
        canonical == export,
        "--export {shown} is a link to {0}: name that on all nodes, and join with --at {shown}",
        canonical.display()
    );
    ensure!(canonical.is_dir(), "--export {shown} is not a directory");
    for directory in export.ancestors() {
        let mode =
            fs::metadata(directory).with_context(|| format!("{} can't be examined", directory.display()))?.mode();
        ensure!(
            mode & 0o001 != 0,
            "--export {shown}: not all users may enter {} (mode {:o}), so no file is readable for all users. \
             `chmod o+x` it, or export another directory",
            directory.display(),
            mode & 0o7777
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn an_unreadable_export_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        fs::create_dir(base.join("sw")).unwrap();
        symlink("sw", base.join("link")).unwrap();
        let refused = |path: &str, why: &str| {
            let error = format!("{:#}", check_export(&base.join(path)).unwrap_err());
            assert!(error.contains(why), "{error}");
        };
        mode(&base, 0o700);
        refused("sw", "not all users may enter");
        mode(&base, 0o711);
        mode(&base.join("sw"), 0o755);
        check_export(&base.join("sw")).unwrap();
        refused("link", "--at");
        refused("none", "can't be read");
        mode(&base.join("sw"), 0o750);
        refused("sw", "mode 750");
    }
}
