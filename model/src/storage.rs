//! The shared file system: queues at metadata servers, and data at a total rate and a client's rate.

use headwater_abi::Path;

use crate::parameters::{FileSystem, ns_at, us};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Stat,
    Open,
    /// Of so many names.
    List(u64),
}

#[derive(Debug)]
pub(crate) struct Storage {
    system: FileSystem,
    /// When each server, and the data servers together, have finished all their work.
    servers_free: Vec<u64>,
    data_free: u64,
    pub(crate) counts: Counts,
}

/// Requests to the shared file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files opened.
    pub opens: u64,
    /// Directories read.
    pub lists: u64,
    /// Attributes and absent names looked up.
    pub stats: u64,
    /// Bytes read.
    pub bytes: u64,
}

impl Counts {
    /// Returns all operations on metadata.
    pub fn requests(&self) -> u64 {
        self.opens + self.lists + self.stats
    }
}

impl Operation {
    /// Returns a server's time for it, in nanoseconds.
    pub(crate) fn service_ns(self, system: &FileSystem) -> u64 {
        match self {
            Operation::Stat => us(system.stat_us),
            Operation::Open => us(system.open_us),
            Operation::List(names) => us(system.list_us + system.list_us_per_name * names as f64),
        }
    }
}

impl Storage {
    pub(crate) fn new(system: &FileSystem) -> Storage {
        let servers_free = vec![0; system.servers as usize];
        Storage { system: system.clone(), servers_free, data_free: 0, counts: Counts::default() }
    }

    /// Returns when some operations end that begin at once.
    pub(crate) fn operate(&mut self, at_ns: u64, path: &Path, operation: Operation, count: u64) -> u64 {
        match operation {
            Operation::Stat => self.counts.stats += count,
            Operation::Open => self.counts.opens += count,
            Operation::List(_) => self.counts.lists += count,
        }
        let way_ns = us(self.system.latency_us) / 2;
        let free = &mut self.servers_free[server_of(path, &self.system) as usize];
        *free = (*free).max(at_ns + way_ns) + count * operation.service_ns(&self.system);
        *free + way_ns
    }

    /// Returns when a client has these bytes of an open file, requested now.
    pub(crate) fn read(&mut self, at_ns: u64, bytes: u64) -> u64 {
        self.counts.bytes += bytes;
        self.data_free = self.data_free.max(at_ns) + ns_at(bytes, self.system.total_gb);
        self.data_free.max(at_ns + us(self.system.latency_us) + ns_at(bytes, self.system.client_gb))
    }
}

/// Returns the metadata server of a path.
pub(crate) fn server_of(path: &Path, system: &FileSystem) -> u32 {
    (path.hash() % u64::from(system.servers)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_does_one_thing_after_the_other() {
        let system = FileSystem { servers: 1, latency_us: 10.0, stat_us: 5.0, ..FileSystem::default() };
        let mut storage = Storage::new(&system);
        let path = Path::new(b"/a").unwrap();
        assert_eq!(storage.operate(0, &path, Operation::Stat, 1), 15_000);
        assert_eq!(storage.operate(0, &path, Operation::Stat, 1), 20_000);
        assert_eq!(storage.operate(100_000, &path, Operation::Stat, 1), 115_000);
        assert_eq!(storage.counts.requests(), 3);
    }

    #[test]
    fn data_is_shared_and_bounded_for_each() {
        let system = FileSystem { latency_us: 0.0, total_gb: 2.0, client_gb: 1.0, ..FileSystem::default() };
        let mut storage = Storage::new(&system);
        assert_eq!(storage.read(0, 1000), 1000);
        assert_eq!(storage.read(0, 1000), 1000);
        assert_eq!(storage.read(0, 1000), 1500);
    }
}
