//! The command: it starts a sampler for each file system, decides after each interval, and reports.

use std::io::stdout;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::counters;
use super::finding::{Event, Finding};
use super::hook::Hook;
use super::judge::{Change, Judge};
use super::metrics::Shown;
use super::mounts::{self, Mounted};
use super::options::GuardOptions;
use super::sampler::{self, Failure, Report};
use crate::message::{log, show};
use crate::metrics::{encode, http};
use crate::session::signals::watch_for;
use crate::site_export::notify;

/// How often file systems that were mounted meanwhile are looked for.
const MOUNTS_INTERVAL: Duration = Duration::from_secs(30);
/// File systems that are watched.
const MOUNTS_MAX: usize = 16;

/// What the main thread waits for.
#[derive(Debug)]
enum Message {
    Sampler(Report),
    Ends,
}

/// Watches until a signal; returns the exit status.
///
/// # Errors
/// Nothing can be watched.
pub fn guard(options: &GuardOptions) -> Result<u8> {
    let (sender, messages) = channel();
    let ends = sender.clone();
    watch_for(&[SIGTERM, SIGINT, SIGHUP], move |signal| signal.is_child() || ends.send(Message::Ends).is_ok())?;
    let hook = options.command.as_deref().map(Hook::start).transpose()?;
    let shown = Shown::default();
    if let Some(address) = options.listen {
        serve(address, shown.clone())?;
    }
    let mut guard = Guard::new(options, hook, shown, sender)?;
    guard.look_for_mounts()?;
    guard.run(&messages)
}

/// Serves metrics by another thread.
fn serve(address: std::net::SocketAddr, shown: Shown) -> Result<()> {
    let listener = TcpListener::bind(address).with_context(|| {
        format!("{address} can't be listened at; name a free port and an address of this machine with --listen")
    })?;
    log(format_args!("metrics are at http://{}{}", listener.local_addr().unwrap_or(address), http::PATH));
    let run = move || http::serve(&listener, move || encode(shown.families()));
    thread::Builder::new().name("metrics".into()).spawn(run).context("there can't be another thread")?;
    Ok(())
}

/// A file system that has a sampler.
#[derive(Debug)]
struct Watched {
    mounted: Arc<Mounted>,
    is_ready: bool,
    /// Operations that it had counted at the last decision, and when that was.
    counted: Option<(Instant, u64)>,
}

struct Guard<'a> {
    options: &'a GuardOptions,
    /// Directories of `--mount`.
    named: &'a [PathBuf],
    hook: Option<Hook>,
    shown: Shown,
    sender: Sender<Message>,
    watched: Vec<Watched>,
    /// Devices that can't be watched, which are not tried again.
    refused: Vec<String>,
    judge: Judge,
    began: Instant,
    status: Option<String>,
}

impl<'a> Guard<'a> {
    fn new(options: &'a GuardOptions, hook: Option<Hook>, shown: Shown, sender: Sender<Message>) -> Result<Guard<'a>> {
        Ok(Guard {
            options,
            named: &options.mount,
            hook,
            shown,
            sender,
            watched: Vec::new(),
            refused: Vec::new(),
            judge: Judge::new(options.operations_per_second),
            began: Instant::now(),
            status: None,
        })
    }

    /// Starts samplers of file systems that have none.
    ///
    /// # Errors
    /// A directory of `--mount` is not there.
    fn look_for_mounts(&mut self) -> Result<()> {
        for mounted in mounts::select(&mounts::read()?, self.named)? {
            let is_known = self.watched.iter().any(|watched| watched.mounted.device == mounted.device);
            if is_known || self.refused.contains(&mounted.device) || self.watched.len() >= MOUNTS_MAX {
                continue;
            }
            let mounted = Arc::new(mounted);
            let sender = self.sender.clone();
            let report = move |report| sender.send(Message::Sampler(report)).is_ok();
            sampler::start(Arc::clone(&mounted), report).context("there can't be another thread")?;
            self.watched.push(Watched { mounted, is_ready: false, counted: None });
        }
        Ok(())
    }

    fn run(&mut self, messages: &Receiver<Message>) -> Result<u8> {
        let interval = Duration::from_secs(u64::from(self.options.interval));
        let (mut decision, mut look) = (Instant::now() + interval, Instant::now() + MOUNTS_INTERVAL);
        self.report_status();
        loop {
            match messages.recv_timeout(decision.saturating_duration_since(Instant::now())) {
                Ok(Message::Ends) => return Ok(0),
                Ok(Message::Sampler(report)) => self.take(report)?,
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("signals are no longer watched; start `headwater guard` again")
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() >= decision {
                decision = Instant::now() + interval;
                self.decide();
            }
            if Instant::now() >= look {
                look = Instant::now() + MOUNTS_INTERVAL;
                // A directory that was there may be mounted again.
                if let Err(error) = self.look_for_mounts() {
                    log(format_args!("warning: {error:#}"));
                }
                self.report_status();
            }
        }
    }

    /// Takes what a sampler reports.
    ///
    /// # Errors
    /// A file system of `--mount` can't be watched.
    fn take(&mut self, report: Report) -> Result<()> {
        match report {
            Report::Sample(sample) => self.judge.note(&sample),
            Report::Ready(mounted) => {
                for watched in self.watched.iter_mut().filter(|watched| watched.mounted == mounted) {
                    watched.is_ready = true;
                    watched.counted = counters::operations(&mounted.point).map(|count| (Instant::now(), count));
                }
                self.report_status();
            }
            Report::Failed(mounted, failure) => {
                self.watched.retain(|watched| watched.mounted != mounted);
                let shown = mounted.point.display();
                match failure {
                    Failure::Gone => log(format_args!("{shown} is not mounted any more")),
                    Failure::Refused(why) if self.is_last(&mounted) => bail!("{shown} can't be watched: {why}"),
                    Failure::Refused(why) => {
                        log(format_args!("warning: {shown} is not watched: {why}"));
                        self.refused.push(mounted.device.clone());
                    }
                }
                let changes = self.judge.forget(&mounted.device, self.began.elapsed());
                self.report(&changes);
                self.report_status();
            }
        }
        Ok(())
    }

    /// Returns whether this one was named, or there is no other.
    fn is_last(&self, mounted: &Mounted) -> bool {
        let is_named = self
            .named
            .iter()
            .any(|directory| directory.canonicalize().is_ok_and(|canonical| canonical.starts_with(&mounted.point)));
        is_named || self.watched.is_empty()
    }

    /// Ends the interval.
    fn decide(&mut self) {
        let mut changes = Vec::new();
        for watched in &mut self.watched {
            let rate = watched.counted.and_then(|(at, before)| {
                let count = counters::operations(&watched.mounted.point)?;
                let (now, seconds) = (Instant::now(), at.elapsed().as_secs_f64());
                watched.counted = Some((now, count));
                Some(count.saturating_sub(before) as f64 / seconds.max(1e-3))
            });
            changes.extend(self.judge.evaluate(&watched.mounted.device, self.began.elapsed(), rate));
        }
        self.report(&changes);
        self.report_status();
    }

    fn report(&self, changes: &[Change]) {
        for finding in changes.iter().map(Finding::of) {
            match finding.event {
                Event::Began => log(format_args!("warning: {finding}")),
                Event::Ended => log(&finding),
            }
            if self.options.json {
                show(stdout(), format_args!("{}\n", finding.json()));
            }
            if let Some(hook) = &self.hook {
                hook.notify(&finding);
            }
        }
        self.shown.update(&self.judge, changes.len());
    }

    /// Reports a new status to the service manager.
    fn report_status(&mut self) {
        if self.watched.iter().any(|watched| !watched.is_ready) && self.status.is_none() {
            return;
        }
        let points: Vec<String> = self.watched.iter().map(|w| w.mounted.point.display().to_string()).collect();
        let over = self.judge.over().count();
        let status = match (points.is_empty(), over) {
            (true, _) => String::from("no network file system is mounted yet"),
            (false, 0) => format!("watches {}; no job is over the limit", points.join(", ")),
            (false, over) => format!("watches {}; over the limit: {over}", points.join(", ")),
        };
        match &self.status {
            Some(before) if *before == status => return,
            Some(_) => notify::status(&status),
            None => {
                log(&status);
                notify::ready(&status);
            }
        }
        self.status = Some(status);
    }
}
