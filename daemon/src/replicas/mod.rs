//! Copies of libraries and programs in each memory domain (`--numa-replicas`).
//!
//! All content is written by threads that prefer one domain's memory, the *home*. Each complete file that processes map
//! is copied to the other domains, one file at a time, in the order of arrival. The store manages the copies
//! (`store/src/mirror/domain_copies.rs`), and the table shows where they are. They use room that content does not need,
//! and are removed first.
//!
//! A process that starts before the copies are made uses the first ones. A daemon with a mount makes none: the kernel
//! caches the pages of a mounted file once for all domains.

pub(crate) mod copier;
mod domains;
mod pattern;
mod policy;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use headwater_abi::Path;
use headwater_abi::table::State;
use headwater_abi::wire::FileHead;
use headwater_store::{Reservation, Store, Table};
use mio::Waker;

use self::copier::CopyJob;
use self::domains::Domain;
use crate::config::Config;

/// Files that wait for copies; further ones get none.
const PENDING_MAX: usize = 16 << 10;

/// The event loop's side.
#[derive(Debug, Default)]
pub(crate) struct Replicating {
    /// One for each domain but the home.
    pub(crate) copiers: Vec<Copier>,
    pub(crate) copied: Option<Receiver<io::Result<()>>>,
    pub(crate) pending: VecDeque<(Path, bool)>,
    pub(crate) under_way: Option<UnderWay>,
    pub(crate) ends: Arc<AtomicBool>,
    /// Only files that match one of these are copied, if there are any.
    patterns: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Copier {
    pub(crate) orders: Sender<CopyJob>,
    thread: JoinHandle<()>,
}

/// A file that is being copied.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub(crate) path: Path,
    pub(crate) is_whole: bool,
    /// The first copy's inode number.
    pub(crate) ino: u64,
    pub(crate) files: Vec<PathBuf>,
    /// The bytes that they may use.
    pub(crate) room: Reservation,
    /// Copies that are not made yet.
    pub(crate) awaited: usize,
    pub(crate) has_failed: bool,
}

impl Replicating {
    /// Starts if it is configured and there are several domains. Threads that the caller starts from now on write in
    /// the home.
    pub(crate) fn start(config: &Config, store: &mut Store, table: &mut Table, waker: &Arc<Waker>) -> Replicating {
        let Some(directory) = config.numa_replicas.as_ref().filter(|_| config.mount.is_none()) else {
            return Replicating::default();
        };
        let mut domains = domains::find(directory);
        if domains.len() < 2 {
            tracing::info!("this machine has one memory domain: --numa-replicas makes no copies");
            return Replicating::default();
        }
        let home = (0..domains.len()).max_by_key(|&number| domains[number].free()).unwrap_or(0);
        let home = domains.remove(home);
        match Replicating::begin(config, &domains, store, waker) {
            Ok(replicating) => {
                if let Err(error) = policy::prefer(home.number) {
                    tracing::debug!(%error, domain = home.number, "first copies lie in any memory domain");
                }
                let mask = domains.iter().fold(0, |mask, domain| mask | 1 << domain.number);
                table.set_domains(mask);
                tracing::info!(
                    home = home.number,
                    further = domains.len(),
                    "libraries are copied to each memory domain"
                );
                replicating
            }
            Err(error) => {
                tracing::warn!(%error, "no copies can be made for memory domains. Raise the limit of processes (ulimit -u), or make more room under --store");
                Replicating::default()
            }
        }
    }

    fn begin(config: &Config, domains: &[Domain], store: &mut Store, waker: &Arc<Waker>) -> io::Result<Replicating> {
        let (copied_in, copied) = unbounded();
        let patterns = config.numa_replicas_for.clone();
        let mut replicating = Replicating { copied: Some(copied), patterns, ..Replicating::default() };
        for domain in domains.iter().cloned() {
            let (orders, ordered) = unbounded();
            let (copied, ends, waker) = (copied_in.clone(), Arc::clone(&replicating.ends), Arc::clone(waker));
            let name = format!("domain-{}", domain.number);
            let serve = move || copier::serve(&domain, &ordered, &copied, &ends, &waker);
            replicating.copiers.push(Copier { orders, thread: Builder::new().name(name).spawn(serve)? });
        }
        store.replicate_in(&domains.iter().map(|domain| domain.number).collect::<Vec<u32>>())?;
        Ok(replicating)
    }

    /// Schedules copies of a complete file.
    pub(crate) fn note(&mut self, path: &Path, head: &FileHead) {
        let is_mapped = head.format & State::NATIVE_OBJECT.bits() != 0;
        // All names of a file must lead to the same copy, so files with several names are not copied.
        let is_copied = is_mapped && head.attr.nlink <= 1 && head.attr.size > 0;
        let is_meant = |pattern: &String| pattern::matches(pattern.as_bytes(), path.as_bytes());
        let is_wanted = is_copied && (self.patterns.is_empty() || self.patterns.iter().any(is_meant));
        if is_wanted && !self.copiers.is_empty() && self.pending.len() < PENDING_MAX {
            self.pending.push_back((path.clone(), head.whole));
        }
    }

    /// Takes the threads' results. Returns the file whose copies are all made or failed.
    pub(crate) fn take(&mut self) -> Option<UnderWay> {
        let under_way = self.under_way.as_mut()?;
        while let Some(Ok(result)) = self.copied.as_ref().map(Receiver::try_recv) {
            under_way.awaited -= 1;
            if let Err(error) = result {
                under_way.has_failed = true;
                tracing::debug!(path = %under_way.path, %error, "not copied to a memory domain");
            }
        }
        self.under_way.take_if(|under_way| under_way.awaited == 0)
    }

    /// Returns true if a file can be copied now.
    pub(crate) fn has_next(&self) -> bool {
        self.under_way.is_none() && !self.pending.is_empty()
    }

    /// Ends the threads, which write nothing after that.
    pub(crate) fn end(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for Copier { orders, thread } in self.copiers.drain(..) {
            drop(orders);
            let _ = thread.join();
        }
    }
}
