//! Mounting: the connection's descriptors and their configuration for the daemon.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headwater_daemon::{Config, Preload};
use headwater_fuse::init::{Locks, Opening, flag, negotiate};
use headwater_fuse::mount::{self, Options};
use headwater_fuse::{Device, Negotiated};
use headwater_mount::{LocksConfig, MountConfig};
use rustix::io::Errno;
use thiserror::Error;

use crate::config::{MountVia, NamespaceVia, SUBTYPE, SupervisorConfig, Via};
use crate::namespace::{Channel, Progress, Serving, Task};
use crate::stale;

/// The largest READ and WRITE, in bytes.
const TRANSFER_BYTES_MAX: u32 = 512 << 10;
/// How long a mount may be busy by chance.
const BUSY_MAX: Duration = Duration::from_millis(200);
/// The interval of attempts.
const BUSY_RETRY: Duration = Duration::from_millis(10);
/// How often a child that is to end is checked.
const MAKER_INTERVAL: Duration = Duration::from_millis(1);
/// The most bytes of lines that name blocks: a message of a socket has space for twice as many.
const BLOCKS_BYTES_MAX: usize = 64 << 10;

/// Why mounting failed.
#[derive(Debug, Error)]
pub(crate) enum MountError {
    #[error("nothing can be mounted at {}: {source}. `headwater doctor` reports what this machine lacks", at.display())]
    Mount { at: PathBuf, source: io::Error },
    #[error("/dev/fuse can't be opened: {0}. Ask the administrator to load the module fuse and to let users open it")]
    Device(io::Error),
    #[error("the kernel's first message on /dev/fuse is not understood: {0}")]
    Negotiation(io::Error),
    #[error("the namespace can't be made: {0}")]
    Namespace(io::Error),
    /// A message with its cause and next step.
    #[error("{0}")]
    Other(String),
}

/// A mounted file system's connection and its mount.
pub(crate) struct Mounting {
    /// Keeps the connection alive; never read. It has a poll error once the file system is unmounted.
    pub(crate) anchor: Device,
    /// The descriptors of the daemon's workers.
    pub(crate) devices: Vec<Device>,
    negotiated: Negotiated,
    opening: Opening,
    pub(crate) placement: MountPlacement,
}

/// Where it is mounted.
pub(crate) enum MountPlacement {
    /// At a directory of this mount namespace.
    Here { via: MountVia, is_mounted: bool },
    /// In a namespace that the node's processes share.
    Namespace { view: PathBuf, namespaces: Vec<OwnedFd>, maker: Option<Maker>, has_user_namespace: bool },
}

/// The child that creates the namespace.
pub(crate) struct Maker {
    child: Child,
    channel: Channel,
}

/// Returns the mount's source: `headwater:SESSION/nK`.
pub(crate) fn source(config: &Config) -> String {
    let mut names = config.node_dir.components().rev().map(|name| name.as_os_str().to_string_lossy());
    let (node, session) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    format!("{SUBTYPE}:{session}/{node}")
}

impl Mounting {
    /// Mounts and performs INIT. From now on accesses to the mount wait until a daemon serves it.
    pub(crate) fn make(config: &SupervisorConfig, executable: &Path, opening: Opening) -> Result<Mounting, MountError> {
        let (anchor, placement) = match &config.via {
            Via::Mount(via) => {
                (mount_here(&config.daemon, via)?, MountPlacement::Here { via: via.clone(), is_mounted: true })
            }
            Via::Namespace(via) => mount_in_namespace(&config.daemon, via, executable)?,
        };
        // A process's lock excludes those of other nodes, as on the source files.
        let is_writable = matches!(placement, MountPlacement::Namespace { .. });
        let locks = if is_writable { Locks::AtServer } else { Locks::InKernel };
        let mut mounting = Mounting { anchor, devices: Vec::new(), negotiated: UNKNOWN, opening, placement };
        let prepare = |mounting: &mut Mounting| {
            mounting.negotiated = negotiate(&mounting.anchor, opening, locks).map_err(MountError::Negotiation)?;
            mounting.opening = mounting.negotiated.opening(opening);
            let clones = (0..config.workers.max(1)).map(|_| mounting.anchor.clone_queue());
            mounting.devices = clones.collect::<io::Result<_>>().map_err(MountError::Device)?;
            Ok(())
        };
        prepare(&mut mounting).inspect_err(|_| {
            // A mount that can't be served must not stay.
            let _ = mounting.visible_at().map(|at| unmount(at, true));
        })?;
        Ok(mounting)
    }

    /// Prepares for a new daemon. If the kernel can't resend unanswered requests, closing the descriptors makes them
    /// fail instead of hanging.
    pub(crate) fn abandon_unanswered(&mut self) {
        if self.negotiated.has(flag::HAS_RESEND) {
            return;
        }
        for device in &mut self.devices {
            match self.anchor.clone_queue() {
                Ok(fresh) => *device = fresh,
                Err(error) => tracing::warn!(%error, "/dev/fuse can't be opened"),
            }
        }
    }

    /// Returns the daemon's configuration of the mount.
    pub(crate) fn config(&self, locks: LocksConfig) -> MountConfig {
        let (root, mount_point, hidden, is_writable) = match &self.placement {
            MountPlacement::Here { via, .. } => (via.root.clone(), via.mount_point.clone(), via.hidden.clone(), false),
            MountPlacement::Namespace { view, .. } => ("/".to_owned(), view.clone(), Vec::new(), true),
        };
        MountConfig {
            root,
            mount_point,
            devices: self.devices.iter().map(|device| device.as_fd().as_raw_fd()).collect(),
            negotiated: self.negotiated,
            opening: self.opening,
            is_writable,
            keeps_links_inside: !is_writable,
            is_beside_audit: matches!(&self.placement, MountPlacement::Here { via, .. } if via.is_beside_audit),
            other_groups: self.other_groups(),
            hidden,
            locks,
        }
    }

    /// Returns the user's groups that the user namespace lacks, if there is one.
    fn other_groups(&self) -> Option<Vec<u32>> {
        let MountPlacement::Namespace { has_user_namespace: true, .. } = self.placement else { return None };
        let own = rustix::process::getegid();
        let groups = rustix::process::getgroups().unwrap_or_default();
        Some(groups.into_iter().filter(|group| *group != own).map(|group| group.as_raw()).collect())
    }

    /// Completes the namespace, once the daemon serves. The child that does it reads ahead what `preload` names.
    pub(crate) fn served(&mut self, preload: Option<&Preload>) -> Result<(), MountError> {
        let MountPlacement::Namespace { maker: Some(maker), .. } = &mut self.placement else { return Ok(()) };
        let serving = Serving { is_served: true, blocks: blocks(preload) };
        maker.channel.send(&serving, &[]).map_err(MountError::Namespace)?;
        match maker.channel.receive().map_err(MountError::Namespace)?.0 {
            Progress::Bound => Ok(()),
            Progress::Failed(why) => Err(MountError::Other(why)),
            Progress::Mounted => Err(MountError::Namespace(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Takes note of the end of the child that has made the namespace.
    pub(crate) fn reap(&mut self) {
        if let MountPlacement::Namespace { maker, .. } = &mut self.placement
            && maker.as_mut().is_some_and(|maker| maker.child.try_wait().is_ok_and(|status| status.is_some()))
        {
            *maker = None;
        }
    }

    /// Returns the mount point.
    pub(crate) fn mount_point(&self) -> &Path {
        match &self.placement {
            MountPlacement::Here { via, .. } => &via.mount_point,
            MountPlacement::Namespace { view, .. } => view,
        }
    }

    /// Returns the mount namespace and the user namespace of the node's processes.
    pub(crate) fn namespaces(&self) -> &[OwnedFd] {
        match &self.placement {
            MountPlacement::Namespace { namespaces, .. } => namespaces,
            MountPlacement::Here { .. } => &[],
        }
    }

    /// Returns where it is mounted in this mount namespace, until it is unmounted.
    pub(crate) fn visible_at(&self) -> Option<&Path> {
        match &self.placement {
            MountPlacement::Here { via, is_mounted: true } => Some(&via.mount_point),
            MountPlacement::Here { .. } | MountPlacement::Namespace { .. } => None,
        }
    }

    /// Drops the mount, which has been unmounted or is no longer this process's.
    pub(crate) fn release(&mut self) {
        match &mut self.placement {
            MountPlacement::Here { via, is_mounted } => {
                if std::mem::take(is_mounted) && via.is_own_directory {
                    // Fails if the directory had other files before it was mounted over.
                    let _ = std::fs::remove_dir(&via.mount_point);
                }
            }
            MountPlacement::Namespace { namespaces, maker, .. } => {
                namespaces.clear();
                *maker = None;
            }
        }
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let deadline = Instant::now() + BUSY_MAX;
        // While it waits for an answer of a daemon that has died, it can't end.
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < deadline {
            std::thread::sleep(MAKER_INTERVAL);
        }
    }
}

/// Returns the lines of a list that name blocks of files, as many as fit into a message.
fn blocks(preload: Option<&Preload>) -> Vec<String> {
    let Some(Preload::List(list)) = preload else { return Vec::new() };
    let mut left = BLOCKS_BYTES_MAX;
    // Where a list is complete, only what processes read themselves may show what it lacks.
    let lines = list.entries.iter().filter(|line| !list.is_complete && line.starts_with("blocks "));
    let fits = |line: &&String| {
        left = left.saturating_sub(line.len());
        left > 0
    };
    lines.take_while(fits).cloned().collect()
}

/// Before INIT.
const UNKNOWN: Negotiated = Negotiated { minor: 0, flags: 0, transfer_bytes_max: 0 };

/// Unmounts. Processes may still use open files. A process that only examines the mount makes it busy for a moment, so
/// this tries again for a while.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] if it is in use and `is_lazy` is false.
pub(crate) fn unmount(mount_point: &Path, is_lazy: bool) -> io::Result<()> {
    let deadline = Instant::now() + BUSY_MAX;
    loop {
        match mount::unmount(mount_point, is_lazy) {
            Err(error) if is_busy(&error) && Instant::now() < deadline => std::thread::sleep(BUSY_RETRY),
            // It has been unmounted by another process.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => return Ok(()),
            result => return result,
        }
    }
}

/// Returns true if the error is EBUSY.
pub(crate) fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::BUSY.raw_os_error())
}

fn options(config: &Config, is_read_only: bool, allows_others: bool) -> Options {
    let subtype = SUBTYPE.to_owned();
    Options { source: source(config), subtype, is_read_only, allows_others, read_bytes_max: TRANSFER_BYTES_MAX }
}

fn mount_here(config: &Config, via: &MountVia) -> Result<Device, MountError> {
    let at = || via.mount_point.clone();
    stale::clear(&via.mount_point).map_err(MountError::Other)?;
    let options = options(config, true, via.allows_others);
    if rustix::process::geteuid().is_root() {
        let device = Device::open().map_err(MountError::Device)?;
        match mount::mount(&device, &via.mount_point, &options) {
            Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {}
            result => {
                result.map_err(|source| MountError::Mount { at: at(), source })?;
                // Without it, reading uses smaller steps.
                let _ = mount::set_read_ahead(&via.mount_point, mount::READ_AHEAD_KIB);
                return Ok(device);
            }
        }
    }
    mount::mount_by_helper(&via.mount_point, &options).map_err(|source| MountError::Mount { at: at(), source })
}

fn mount_in_namespace(
    config: &Config,
    via: &NamespaceVia,
    executable: &Path,
) -> Result<(Device, MountPlacement), MountError> {
    let view = config.dir().view();
    std::fs::create_dir_all(&view).map_err(|source| MountError::Mount { at: view.clone(), source })?;
    let (channel, theirs) = Channel::pair().map_err(MountError::Namespace)?;
    let mut command = Command::new(executable);
    command.arg0("headwater").arg("namespace").stdin(Stdio::from(theirs)).stdout(Stdio::null());
    let maker = Maker { child: command.spawn().map_err(MountError::Namespace)?, channel };
    // Closes the child's end here, so that its death is noticed.
    drop(command);
    let task = Task {
        view: view.clone(),
        source: source(config),
        has_user_namespace: via.has_user_namespace,
        allows_others: via.allows_others,
        read_bytes_max: TRANSFER_BYTES_MAX,
        scope: config.scope.clone(),
    };
    maker.channel.send(&task, &[]).map_err(MountError::Namespace)?;
    let (progress, descriptors) = maker.channel.receive().map_err(MountError::Namespace)?;
    match progress {
        Progress::Mounted if descriptors.len() == 2 + usize::from(via.has_user_namespace) => {}
        Progress::Failed(why) => return Err(MountError::Other(why)),
        _ => return Err(MountError::Namespace(io::ErrorKind::InvalidData.into())),
    }
    let mut descriptors = descriptors.into_iter();
    let device = descriptors.next().map(Device::from_fd);
    let device = device.ok_or(MountError::Namespace(io::ErrorKind::InvalidData.into()))?;
    let placement = MountPlacement::Namespace {
        view,
        namespaces: descriptors.collect(),
        maker: Some(maker),
        has_user_namespace: via.has_user_namespace,
    };
    Ok((device, placement))
}
