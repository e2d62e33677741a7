//! Starts a daemon, part by part, in the order in which processes may meet them.

use std::io::{self};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use headwater_abi::table::Header;
use headwater_mount::Mount;
use headwater_overlay::{Addresses, Identity, Links, Transfers};
use headwater_proto::{Forest, Rank, TreeId};
use headwater_reader::{Opened, Pool};
use headwater_store::layout::NodeDir;
use headwater_store::{Following, Store, view};
use mio::{Poll, Registry, Waker};

use super::cached;
use super::timeline::Timeline;
use super::tokens::{CLIENTS, CONTROL_SOCKET, FIRST_FREE, PEERS, PRESSURE, WAKER};
use super::{Content, Daemon, Driver, Frontends, Housekeeping, Reactor};
use crate::beyond::Beyond;
use crate::clients::{ClientIds, Clients};
use crate::config::Config;
use crate::control_socket::{Clearings, ControlSocket, Refreshes, links as peers};
use crate::error::{DaemonError, failed};
use crate::generation::Generations;
use crate::keeping::Keeping;
use crate::mounts;
use crate::preload::Preloading;
use crate::pressure::Pressure;
use crate::process;
use crate::recorder::Recorder;
use crate::recovery;
use crate::replicas::Replicating;
use crate::role::is_leaf;
use crate::stats::{Changed, NodeStats};

impl Daemon {
    pub(crate) fn start(config: &Config, listeners: Vec<TcpListener>, opened: Opened) -> Result<Daemon, DaemonError> {
        let system = |what| move |source: io::Error| DaemonError::System { what, source };
        let dir = config.dir();
        let scope = config.scope_paths()?;
        let poll = Poll::new().map_err(system("watch sockets"))?;
        let registry = poll.registry();
        let cache = cached::open(config);
        let config = &Config { cache: config.cache.clone().filter(|_| cache.is_some()), ..config.clone() };
        let (node, mut store, table) = recovery::begin(config, &scope)?;
        note_readers(&mut store, config);
        store.budget().set_max(config.store_bytes_max);
        let header = header(config, &dir, &scope, store.device().map_err(failed("examine the store in", dir.path()))?);
        let clients_max = process::descriptors_max() / 2;
        let clients = Clients::listen(&dir.socket(), registry, CLIENTS, clients_max, dir.generation())
            .map_err(failed("listen at", &dir.socket()))?;
        let control_socket = ControlSocket::listen(&dir.control(), registry, CONTROL_SOCKET)
            .map_err(failed("listen at", &dir.control()))?;
        let links = links(config, listeners, registry).map_err(system("listen for peers"))?;
        let (content, is_own_disk) = (dir.root(), config.disk.is_some());
        let pressure = Pressure::start(config.store_bytes_max, (&content, is_own_disk), registry, PRESSURE);
        let waker = Arc::new(Waker::new(registry, WAKER).map_err(system("wake the event loop"))?);
        // Last, because a table without a daemon would make processes wait.
        let create = || mounts::create_table(config, &dir, &header);
        let mut table = table.map_or_else(create, Ok).map_err(failed("create", &dir.table()))?;
        // Before threads are started that write content, and before a process can read the table.
        let replicating = Replicating::start(config, &mut store, &mut table, &waker);
        dir.publish().map_err(failed("create", &dir.table_link()))?;
        let generations = if config.recover { Generations::find(&dir, &table) } else { Generations::default() };
        generations.older.iter().for_each(|older| store.remember_generation(&older.dir));
        let mount = mounts::serve_mount(config, &mut table, generations.tables(), &scope, store.blocks(), &waker)
            .map_err(system("serve the mounted file system"))?;
        let preloading = Preloading::start(config, &scope, &waker);
        let readers =
            Pool::new(waker, opened, config.is_site_export, has_several_readers(&config.forest()), cache.clone());
        Ok(Daemon {
            driver: Driver::new(node),
            content: Content {
                store,
                table,
                dir,
                generations,
                following: Following::default(),
                links,
                transfers: Transfers::default(),
                readers,
            },
            frontends: frontends(config, clients, mount, control_socket),
            housekeeping: Housekeeping {
                timeline: Timeline::default(),
                pressure,
                preloading,
                keeping: Keeping::start(cache),
                beyond: Beyond::watch(config.preload.as_ref(), config.recover),
                record_to: config.record_to.clone(),
                recorder: config.report_to.as_ref().map(|_| Box::new(Recorder::start(config))),
                replicating,
                changes: Changed::default(),
            },
            reactor: Reactor {
                poll,
                started: Instant::now(),
                next_token: FIRST_FREE,
                is_ready: false,
                ready_by: config.parent_wait_ms_max(),
            },
            is_site_export: config.is_site_export,
            serves_audit: config.serves_audit(),
            depth: config.forest().depth_max(),
        })
    }
}

fn frontends(config: &Config, clients: Clients, mount: Option<Mount>, control_socket: ControlSocket) -> Frontends {
    Frontends {
        clients,
        client_ids: ClientIds::default(),
        mount,
        control_socket,
        about: NodeStats::of(config),
        names: peers::names(config),
        clearings: Clearings::default(),
        refreshes: Refreshes::default(),
    }
}

/// Returns whether several nodes read parts of one file.
fn has_several_readers(forest: &Forest) -> bool {
    forest.is_striped() && forest.tree_ids().any(|tree| forest.root(tree) != forest.root(TreeId(0)))
}

/// Creates the links, which are accepted by `listeners` or dialled.
fn links(config: &Config, listeners: Vec<TcpListener>, registry: &Registry) -> io::Result<Links> {
    let identity = Identity {
        rank: Rank(config.rank),
        forest: config.forest(),
        session: config.session,
        key: config.key.clone(),
        protection: config.link_protection,
    };
    listeners.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
    let listeners = listeners.into_iter().map(mio::net::TcpListener::from_std).collect();
    let mut links = Links::new(identity, listeners, Addresses::new(&config.peers, &config.names), registry, PEERS)?;
    links.use_rails(config.rails.as_ref());
    links.use_fabric(config.fabric.as_ref());
    Ok(links)
}

/// Returns the table's header, which every process reads.
fn header(config: &Config, dir: &NodeDir, scope: &[(bool, headwater_abi::Path)], store_dev: (u32, u32)) -> Header {
    Header {
        generation: dir.generation(),
        scope: scope.iter().map(|(included, path)| (*included, path.as_bytes().to_vec())).collect(),
        store: bytes_of(&dir.shown(&dir.root())),
        socket: bytes_of(&dir.socket()),
        counters: bytes_of(&dir.counters()),
        store_dev,
        view: view(),
        stored_file_bytes_max: config.stored_file_bytes_max(),
        follows_fork: config.follows_fork,
    }
}

/// Configures the store for the kinds of reader that it has, so that it retains nothing for others.
fn note_readers(store: &mut Store, config: &Config) {
    if is_leaf(&config.forest(), Rank(config.rank)) {
        store.sends_nothing();
    }
    if !config.serves_audit() {
        store.serves_mount_alone();
    }
}

fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}
