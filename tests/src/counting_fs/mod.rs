//! A directory seen through a file system that counts every operation and can be made slow.
//!
//! It runs as a process of its own, `counting-fs`, because a process that uses its own FUSE mount can
//! deadlock. One process serves any number of mounts of the same source: each has the kernel's caches
//! to itself, as each node of a cluster does, and all share the counts and the one slow server.
//!
//! The process answers requests on a Unix socket, a line each:
//!
//! | request | reply |
//! |---|---|
//! | `counts` | the counts as JSON, see [`Tally::to_json`](tally::Tally::to_json) |
//! | `reset` | `ok` |
//! | `rate N` | `ok`; from now on one server handles N operations a second, 0: no limit |
//! | `bandwidth N` | `ok`; from now on one server sends N bytes of content a second, 0: no limit |
//! | `delay KIND NS` | `ok`; each operation of this kind takes that many nanoseconds longer |
//!
//! When its first connection closes, it unmounts everything and exits.

mod fs;
mod mounted;
mod source;
mod state;
pub mod tally;

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use rustix::mount::UnmountFlags;

use self::state::State;
use self::tally::{Kind, Pace, Tally};
pub use mounted::{Caching, Mounted};

/// The process's command line.
pub struct Options {
    /// The directory to show.
    pub source: PathBuf,
    /// The path of the socket.
    pub control: PathBuf,
    /// How long the kernel may cache a name that it found, and attributes, in milliseconds.
    pub ttl_ms: u64,
    /// Whether a file's pages stay in the kernel when it is opened again.
    pub retain_pages: bool,
    /// The mount points.
    pub mounts: Vec<PathBuf>,
}

/// Operations that are served at once: one that is delayed delays no other.
const THREADS: usize = 4;

/// Mounts, serves one connection, unmounts.
pub fn run(options: &Options) -> io::Result<()> {
    let state = Arc::new(State {
        tally: Tally::default(),
        pace: Pace::default(),
        entry_ttl: Duration::from_millis(options.ttl_ms),
        attr_ttl: Duration::from_millis(options.ttl_ms),
        retain_pages: options.retain_pages,
    });
    let sessions = options
        .mounts
        .iter()
        .map(|mount| mount_at(&state, &options.source, mount))
        .collect::<io::Result<Vec<BackgroundSession>>>()?;
    let listener = UnixListener::bind(&options.control)?;
    let (connection, _) = listener.accept()?;
    let served = serve(&state, &connection);
    // A client that was killed may have left processes that use the mounts.
    for mount in &options.mounts {
        let _ = rustix::mount::unmount(mount, UnmountFlags::DETACH);
    }
    drop(sessions);
    served
}

fn mount_at(state: &Arc<State>, source: &Path, mount: &Path) -> io::Result<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options =
        vec![MountOption::FSName("counting-fs".into()), MountOption::DefaultPermissions, MountOption::Suid];
    // Only root may let other users in without an entry in /etc/fuse.conf.
    let is_root = rustix::process::geteuid().is_root();
    config.acl = if is_root { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    fuser::spawn_mount(source::CountingFs::new(state.clone(), source), mount, &config)
}

fn serve(state: &State, connection: &UnixStream) -> io::Result<()> {
    for line in BufReader::new(connection).lines() {
        let reply = answer(state, &line?).unwrap_or_else(|| "what?".into());
        writeln!(&*connection, "{reply}")?;
    }
    Ok(())
}

fn answer(state: &State, line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    match fields[..] {
        ["counts"] => return Some(state.tally.to_json().to_string()),
        ["reset"] => state.tally.reset(),
        ["rate", per_second] => state.pace.set_rate(per_second.parse().ok()?),
        ["bandwidth", per_second] => state.pace.set_bandwidth(per_second.parse().ok()?),
        ["delay", kind, ns] => state.pace.set_delay(Kind::from_name(kind)?, ns.parse().ok()?),
        _ => return None,
    }
    Some("ok".into())
}
