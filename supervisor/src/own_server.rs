//! The supervisor as a server: used if no daemon can be started, or for open files after the session's end.

use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use headwater_daemon::Config;
use headwater_fuse::Device;
use headwater_store::Table;
use mio::{Poll, Token, Waker};

use crate::lock_store::LockStore;

/// A thread that serves a mount from its source files.
pub(crate) struct OwnServer(Option<JoinHandle<()>>);

impl OwnServer {
    /// Returns a server without a thread.
    pub(crate) fn none() -> OwnServer {
        OwnServer(None)
    }

    /// Serves with these descriptors until the file system is unmounted. No daemon may write the table meanwhile.
    pub(crate) fn start(config: &Config, devices: &[Device], locks: &LockStore) -> io::Result<OwnServer> {
        let mut config = config.clone();
        config.recover = true;
        let scope = config.scope_paths().map_err(io::Error::other)?;
        if let Some(mount) = &mut config.mount {
            let duplicates: io::Result<Vec<OwnedFd>> =
                devices.iter().map(|device| device.as_fd().try_clone_to_owned()).collect();
            mount.devices = duplicates?.into_iter().map(IntoRawFd::into_raw_fd).collect();
            // Without them, locks end; without a server, processes would hang.
            mount.locks = locks.config_of_last().unwrap_or_default();
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let serve = move || {
            let start = || -> io::Result<_> {
                let mut table = Table::attach(&config.dir().table(), config.geometry())?;
                let older = headwater_daemon::older_tables(&config.dir(), &table);
                let poll = Poll::new()?;
                let waker = Arc::new(Waker::new(poll.registry(), Token(0))?);
                let mount = headwater_daemon::serve_mount(&config, &mut table, older, &scope, Arc::default(), &waker)?;
                Ok((mount, table, poll))
            };
            match start() {
                Ok((Some(mut mount), mut table, _poll)) => {
                    let _ = sender.send(Ok(()));
                    mount.serve_from_source(&mut table);
                }
                Ok((None, ..)) => drop(sender.send(Err(io::ErrorKind::InvalidInput.into()))),
                Err(error) => drop(sender.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("own-server".into()).spawn(serve)?;
        receiver.recv().map_err(io::Error::other)??;
        Ok(OwnServer(Some(thread)))
    }

    /// Waits until the file system is unmounted.
    pub(crate) fn wait(self) {
        if let Some(thread) = self.0 {
            // A panic of the thread has been reported by it.
            let _ = thread.join();
        }
    }
}
