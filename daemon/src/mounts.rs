//! Serving the configured mount.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use headwater_abi::Path;
use headwater_abi::table::Header;
use headwater_fuse::Device;
use headwater_mount::{LockHandover, LocksConfig, Mount, OlderTable, Start};
use headwater_store::layout::NodeDir;
use headwater_store::{Blocks, Table};
use mio::Waker;
use rustix::fs::FileType;

use crate::config::Config;
use crate::process::{descriptors_max, inherited, inherited_epoll};

/// Creates the node's table. It shows the mount of `config` to processes under audit, if they read large files in it.
pub fn create_table(config: &Config, dir: &NodeDir, header: &Header) -> io::Result<Table> {
    let mut table = Table::create(&dir.table(), config.geometry(), header)?;
    if let Some(mount) = config.mount.as_ref().filter(|mount| mount.is_beside_audit) {
        let device = headwater_fuse::mount::device_of(&mount.mount_point)?;
        table.set_mount(mount.mount_point.as_os_str().as_bytes(), device);
    }
    Ok(table)
}

/// Serves the mount of `config`, if it has one. Files of the `older` generations may be open.
pub fn serve_mount(
    config: &Config,
    table: &mut Table,
    older: Vec<OlderTable>,
    scope: &[(bool, Path)],
    blocks: Arc<Blocks>,
    waker: &Arc<Waker>,
) -> io::Result<Option<Mount>> {
    let Some(mount) = &config.mount else { return Ok(None) };
    let device = |number: &i32| inherited(*number, FileType::CharacterDevice).map(Device::from_fd);
    let devices = mount.devices.iter().map(device).collect::<io::Result<_>>()?;
    Start {
        mount,
        locks: locks(&mount.locks)?,
        descriptors_max: descriptors_max(),
        recover: config.recover,
        has_other_nodes: config.forest().ranks() > 1,
        store: config.dir().root(),
        moves: config.dir().moves(),
        scope: scope.to_vec(),
        older,
        blocks,
        whole_file_bytes_max: config.whole_file_bytes_max,
        stored: config.stored(),
        has_source: !config.is_site_export,
    }
    .serve(devices, table, waker)
    .map(Some)
}

fn locks(config: &LocksConfig) -> io::Result<LockHandover> {
    let taken = config
        .taken
        .iter()
        .map(|(lock, number)| inherited(*number, FileType::RegularFile).map(|file| (lock.clone(), Arc::new(file))));
    Ok(LockHandover {
        supervisor: config.supervisor.map(|number| inherited(number, FileType::Socket)).transpose()?,
        watch: config.watch.map(inherited_epoll).transpose()?,
        taken: taken.collect::<io::Result<_>>()?,
    })
}
