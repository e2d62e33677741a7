//! A session on this machine that serves a program: by the chosen mechanism, or by the next one that works.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};

use anyhow::Result;
use headwater_abi::table::Geometry;
use headwater_closure::scope::Scope;
use headwater_daemon::{Fabric, Preload, Report};
use headwater_report::job::{Clock, Merger};
use headwater_supervisor::{MountVia, NamespaceVia, Via};
use rustix::process::{Resource, getrlimit};

use crate::message::log;
use crate::notes::progress::{Progress, Step};
use crate::notes::{self, Audience};
use crate::options::run::RunOptions;
use crate::rendezvous::messages::NodeAccess;
use crate::session::daemons::{Daemons, Settings, local_names};
use crate::session::directory::Session;
use crate::session::events::{Event, Interrupted};
use crate::session::opened::Opened;
use crate::session::prepare;
use crate::session::records::Records;
use crate::session::store::{self, Disk, ReadBy};
use crate::topology::Arrangement;
use crate::via::{Choice, Mechanism, Program};

/// Directories that a view of `/` shows empty.
const HIDDEN: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Descriptors that a daemon and its supervisor need.
const DESCRIPTORS_MIN: u64 = 128;

/// Returns which limit of this process is too low for a daemon, if one is.
fn limited() -> Option<String> {
    let below = |resource, least| getrlimit(resource).maximum.filter(|most| *most < least);
    let file_bytes_min = Geometry::default().total_bytes();
    let descriptors = below(Resource::Nofile, DESCRIPTORS_MIN).map(|most| {
        format!(
            "a process may have {most} open files, and a session needs {DESCRIPTORS_MIN}: raise the limit (ulimit -Hn)"
        )
    });
    descriptors.or_else(|| {
        below(Resource::Fsize, file_bytes_min).map(|most| {
            format!("a process may write files of {most} bytes, and a session needs {file_bytes_min}: raise the limit (ulimit -Hf)")
        })
    })
}

/// A session that serves. The daemons end before the session's directory is removed.
pub struct Serving {
    /// The nodes' daemons.
    pub daemons: Daemons,
    /// The session.
    pub session: Session,
    /// How each node's processes find its daemon.
    pub access: Vec<NodeAccess>,
    /// The RAM disk with content.
    pub disk: Option<Disk>,
}

/// What to serve, and how.
#[derive(Clone, Copy)]
pub struct ServiceRequest<'a> {
    /// The user's options.
    pub options: &'a RunOptions,
    /// Its properties.
    pub program: &'a Program,
    /// The scope.
    pub scope: &'a Scope,
    /// Files that are open.
    pub opened: &'a Opened,
    /// The nodes' ranks, and the trees.
    pub arrangement: &'a Arrangement,
    /// Files to preload.
    pub preload: Option<&'a Preload>,
    /// Which nodes report what their processes use.
    pub records: Records,
    /// Whether nodes record what they do.
    pub reports: bool,
    /// The readers of notes.
    pub audience: Audience,
    /// The steps before the program's start.
    pub progress: &'a Progress,
}

impl ServiceRequest<'_> {
    /// Starts a session by the first mechanism that works, from `choice` on, and updates `choice`. Returns `None` if
    /// the program runs without Headwater.
    ///
    /// # Errors
    /// A signal arrived that ends programs.
    pub fn serve(
        self,
        choice: &mut Choice,
        sender: &Sender<Event>,
        events: &Receiver<Event>,
    ) -> Result<Option<Serving>, Interrupted> {
        let fabric = self.options.service.transport.fabric();
        let is_sealed = self.options.sealed.sealed.is_some();
        let then = if is_sealed { "" } else { ". The program runs without Headwater" };
        if let Some(why) = limited().filter(|_| choice.mechanism != Mechanism::Off) {
            log(format_args!("warning: {why}{then}"));
            *choice = Choice::off(why);
        }
        let service = &self.options.service;
        let storage = &service.storage;
        // It would fail for each mechanism.
        if choice.mechanism != Mechanism::Off
            && let Err(error) = store::choose(storage.store.as_deref(), storage.store_max, self.options.nodes)
        {
            log(format_args!("warning: {error:#}{then}"));
            *choice = Choice::off(format!("{error:#}"));
        }
        let keeps_large = self.options.nodes > 1 || service.storage.cache().is_some();
        let is_mount_useful = is_mount_useful(keeps_large, service.numa_replicas, self.preload);
        *choice = choice.clone().with_mount_beside(is_mount_useful);
        while choice.mechanism != Mechanism::Off {
            let error = match self.serve_by(choice.mechanism, fabric.clone(), sender, events) {
                Ok(serving) => return Ok(Some(serving)),
                Err(error) => error.downcast::<Interrupted>().map_or_else(Ok, Err)?,
            };
            let why = format!("{error:#}");
            let failed = choice.mechanism;
            *choice = choice.after_failure(self.program, &why, is_mount_useful);
            match choice.mechanism {
                Mechanism::Off => log(format_args!("warning: {}{then}", choice.reason)),
                // Large files are then stored whole.
                Mechanism::Audit { .. } if failed.is_audit() => {
                    if self.options.service.verbose {
                        log(format_args!("no mount for large files: {why}"));
                    }
                }
                next => log(format_args!("warning: {why}. Going on with --via {}", next.name())),
            }
        }
        Ok(None)
    }

    /// Starts a session and waits until it serves.
    fn serve_by(
        self,
        mechanism: Mechanism,
        fabric: Option<Fabric>,
        sender: &Sender<Event>,
        events: &Receiver<Event>,
    ) -> Result<Serving> {
        let options = self.options;
        self.progress.step(Step::starting(options.nodes, mechanism.name()));
        let library = prepare::read_library(mechanism)?;
        let read_by = if mechanism.is_audit() { ReadBy::Processes } else { ReadBy::Daemon };
        let storage = &options.service.storage;
        let store = store::open(storage.store.as_deref(), storage.store_max, options.nodes, read_by)?;
        if options.service.verbose {
            log(format_args!("stores {}, of at most {} bytes each", store.location(), store.bytes_max));
        }
        self.note_room(store.bytes_max);
        let session = Session::create(&store.directory, options.nodes)?;
        let mut scope = self.scope.clone();
        scope.cut_out(session.base(), "the store");
        let scope = scope.pairs();
        let prepare = |number| prepare::prepare(&session.node(number), mechanism, &library, &scope);
        let access = (0..options.nodes).map(prepare).collect::<Result<Vec<_>>>()?;
        let via = |number| via(mechanism, &session, number);
        let has_mount = mechanism != Mechanism::AUDIT_ALONE;
        let settings = Settings {
            arrangement: self.arrangement,
            policy: options.service.policy(),
            store: &store,
            numa_replicas: options.service.numa_replicas.then_some(&options.service.numa_replicas_for),
            scope,
            opened: self.opened,
            whole_file_bytes_max: storage.whole_file_max,
            stored_file_bytes_max: storage.stored_file_max,
            serve: options.service.served.kinds(),
            follows_fork: options.service.served.follow_fork,
            cache: storage.cache(),
            via: if has_mount { Some(&via) } else { None },
            opening: options.service.opening.mode(),
            verbose: options.service.verbose,
            is_detached: false,
            preload: self.preload,
            records: self.records,
            reports: self.reports,
            fabric,
            node_names: local_names(self.arrangement),
            link_protection: options.service.link_protection,
            rails: None,
        };
        let mut daemons = Daemons::start(&session, &settings, sender)?;
        daemons.wait_ready(events)?;
        Ok(Serving { daemons, session, access, disk: store.disk })
    }
}

impl ServiceRequest<'_> {
    /// Reports that a store has no room for a file that is needed.
    fn note_room(self, store_bytes_max: u64) {
        let bytes = |(path, file): &(PathBuf, BorrowedFd<'_>)| {
            let is_served = path.canonicalize().is_ok_and(|path| self.scope.includes(&path));
            Some((path.clone(), rustix::fs::fstat(file).ok().filter(|_| is_served)?.st_size.unsigned_abs()))
        };
        let needed: Vec<_> = self.opened.with(|files| files.iter().filter_map(bytes).collect());
        let whole_file_max = self.options.service.storage.whole_file_max;
        if let Some(note) = notes::too_small(store_bytes_max, whole_file_max, &needed)
            && self.audience.reads_failures()
        {
            log(note);
        }
    }
}

impl Serving {
    /// Ends the session; returns the daemons' reports, `None` for a lost one, and what they recorded. Adds what they did
    /// to `merger`, if there is one.
    pub fn end(self, events: &Receiver<Event>, merger: Option<&mut Merger>) -> (Vec<Option<Report>>, Vec<String>) {
        let reports = self.daemons.stop(events);
        let nodes = 0..reports.len() as u32;
        let recorded = nodes.clone().flat_map(|node| self.session.recorded(node)).collect();
        if let Some(merger) = merger {
            nodes.filter_map(|node| self.session.part(node)).for_each(|part| merger.add(part, Clock::same()));
        }
        drop(self.session);
        drop(self.disk);
        (reports, recorded)
    }
}

/// Returns whether processes under audit had better read large files in a mount: if they are kept, for other nodes or
/// for later sessions (`keeps_large`), and not all of each is wanted.
pub fn is_mount_useful(keeps_large: bool, numa_replicas: bool, preload: Option<&Preload>) -> bool {
    let is_complete = matches!(preload, Some(Preload::List(list)) if list.is_complete);
    keeps_large && !numa_replicas && !is_complete
}

/// Returns how a node's mount is made.
pub fn via(mechanism: Mechanism, session: &Session, node: u32) -> Via {
    match mechanism {
        Mechanism::Namespace { has_user_namespace } => {
            // Programs of root may change their user; in a user namespace there are no other users.
            Via::Namespace(NamespaceVia { has_user_namespace, allows_others: true })
        }
        _ => {
            let store = session.base().display().to_string();
            let hidden = HIDDEN.iter().map(|h| String::from(*h)).chain([store]).collect();
            Via::Mount(MountVia {
                mount_point: session.node(node).view(),
                root: "/".into(),
                hidden,
                allows_others: false,
                is_beside_audit: mechanism.is_audit(),
                is_own_directory: false,
            })
        }
    }
}
