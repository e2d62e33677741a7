//! Free memory. On a virtual machine the first write to a page that the guest has not used for a while makes its host
//! search for one. That takes longer than all that a daemon does with a page's bytes. Sixteen nodes on one machine
//! write sixteen times as much as one would.

use std::fs::File;
use std::io::{self, Write};

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

const PIECE_BYTES: usize = 16 << 20;

/// Free pages that the host has provided already, as long as this value lives. Every other page of a file in memory is
/// free, and none of them has a free neighbour: guests return free memory to their host in larger blocks.
pub(super) struct Reserve {
    _neighbours: File,
}

impl Reserve {
    /// So many bytes of them.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn of(bytes: u64) -> io::Result<Reserve> {
        let mut file = File::from(memfd_create("reserve", MemfdFlags::CLOEXEC)?);
        let piece = vec![1; PIECE_BYTES];
        for _ in 0..(2 * bytes).div_ceil(PIECE_BYTES as u64) {
            file.write_all(&piece)?;
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let page_bytes = rustix::param::page_size() as u64;
        for page in 0..bytes / page_bytes {
            fallocate(&file, hole, 2 * page * page_bytes, page_bytes)?;
        }
        Ok(Reserve { _neighbours: file })
    }
}
