//! Decoding of bytes to [`Request`]s. Bytes of the kernel are trusted no more than any others.

use zerocopy::FromBytes;

use crate::NodeId;
use crate::init::flag;
use crate::request::{DecodeError, Forgets, Init, Lock, LockKind, Operation, Request, SetTime, Setattr};
use crate::wire::{
    CopyFileRangeIn, CreateIn, FSYNC_FDATASYNC, FallocateIn, FlushIn, ForgetOne, FsyncIn, GetattrIn, InHeader, InitIn,
    LK_FLOCK, LkIn, LseekIn, MkdirIn, MknodIn, Number, OpenIn, ReleaseIn, Rename2In, SetattrIn, SetxattrIn, StatxIn,
    TransferIn, WRITE_CACHE, fattr, lock_kind, opcode,
};

impl<'a> Request<'a> {
    /// Decodes the result of one `read` of the device.
    ///
    /// # Errors
    /// The bytes are cut off, too many, or hold a name that no directory can have.
    pub fn decode(bytes: &'a [u8]) -> Result<Request<'a>, DecodeError> {
        let nothing = DecodeError { opcode: 0, unique: 0 };
        let (header, rest) = InHeader::read_from_prefix(bytes).map_err(|_| nothing)?;
        let error = DecodeError { opcode: header.opcode, unique: header.unique };
        let extensions = usize::from(header.total_extlen) * 8;
        let is_whole = header.len as usize == bytes.len();
        let arguments = rest.len().checked_sub(extensions).filter(|_| is_whole).ok_or(error)?;
        let operation = Arguments(&rest[..arguments]).operation(header.opcode).ok_or(error)?;
        let InHeader { unique, nodeid, uid, gid, pid, .. } = header;
        Ok(Request { unique, node: NodeId(nodeid), uid, gid, pid, operation })
    }
}

impl Iterator for Forgets<'_> {
    type Item = (NodeId, u64);

    fn next(&mut self) -> Option<(NodeId, u64)> {
        let (one, rest) = ForgetOne::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some((NodeId(one.nodeid), one.nlookup))
    }
}

/// The part of a request that is not decoded yet. Every method takes from the front, and returns `None` if
/// the bytes are invalid.
struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    fn operation(mut self, opcode: u32) -> Option<Operation<'a>> {
        let operation = match opcode {
            opcode::INIT => return self.init().map(Operation::Init),
            opcode::DESTROY => Operation::Destroy,
            opcode::STATFS => Operation::Statfs,
            opcode::INTERRUPT => Operation::Interrupt { unique: self.take()? },
            opcode::FORGET => Operation::Forget { lookups: self.take()? },
            opcode::BATCH_FORGET => self.batch_forget()?,
            opcode::GETATTR => self.after::<GetattrIn>(Operation::Getattr)?,
            opcode::STATX => self.after::<StatxIn>(Operation::Statx)?,
            opcode::SETATTR => Operation::Setattr(Setattr::new(&self.take()?)),
            opcode::READLINK => Operation::Readlink,
            opcode::ACCESS => self.after::<Number>(Operation::Access)?,
            opcode::LISTXATTR => Operation::Listxattr { bytes: self.take::<Number>()?.value },
            opcode::OPEN => Operation::Open { flags: self.take::<OpenIn>()?.flags },
            opcode::READ => {
                let TransferIn { offset, size, .. } = self.take()?;
                Operation::Read { offset, bytes: size }
            }
            opcode::WRITE => {
                let TransferIn { offset, size, transfer_flags, flags, .. } = self.take()?;
                let is_from_cache = transfer_flags & WRITE_CACHE != 0;
                Operation::Write { offset, flags, is_from_cache, data: self.bytes(size as usize)? }
            }
            opcode::FLUSH => self.after::<FlushIn>(Operation::Flush)?,
            opcode::RELEASE => Operation::Release { handle: self.take::<ReleaseIn>()?.fh },
            opcode::FSYNC => Operation::Fsync { data_only: self.data_only()? },
            opcode::GETLK => Operation::Getlk(self.lock()?),
            opcode::SETLK => Operation::Setlk { lock: self.lock()?, waits: false },
            opcode::SETLKW => Operation::Setlk { lock: self.lock()?, waits: true },
            opcode::FALLOCATE => {
                let FallocateIn { offset, length, mode, .. } = self.take()?;
                Operation::Fallocate { offset, bytes: length, mode }
            }
            opcode::LSEEK => {
                let LseekIn { offset, whence, .. } = self.take()?;
                Operation::Lseek { offset, whence }
            }
            opcode::COPY_FILE_RANGE => self.after::<CopyFileRangeIn>(Operation::CopyFileRange)?,
            opcode::OPENDIR => self.after::<OpenIn>(Operation::Opendir)?,
            opcode::READDIR | opcode::READDIRPLUS => {
                let TransferIn { offset, size, .. } = self.take()?;
                Operation::Readdir { offset, bytes: size, plus: opcode == opcode::READDIRPLUS }
            }
            opcode::RELEASEDIR => self.after::<ReleaseIn>(Operation::Releasedir)?,
            opcode::FSYNCDIR => Operation::Fsyncdir { data_only: self.data_only()? },
            opcode => self.name_operation(opcode)?,
        };
        (self.0.is_empty() || matches!(operation, Operation::Unknown(_))).then_some(operation)
    }

    /// Decodes an operation with a name, or an unknown one.
    fn name_operation(&mut self, opcode: u32) -> Option<Operation<'a>> {
        Some(match opcode {
            opcode::LOOKUP => Operation::Lookup { name: self.name()? },
            opcode::UNLINK => Operation::Unlink { name: self.name()? },
            opcode::RMDIR => Operation::Rmdir { name: self.name()? },
            opcode::LINK => Operation::Link { existing: NodeId(self.take()?), name: self.name()? },
            opcode::RENAME => {
                let to = NodeId(self.take()?);
                Operation::Rename { name: self.name()?, to, to_name: self.name()?, flags: 0 }
            }
            opcode::RENAME2 => {
                let Rename2In { newdir, flags, .. } = self.take()?;
                Operation::Rename { name: self.name()?, to: NodeId(newdir), to_name: self.name()?, flags }
            }
            opcode::CREATE => {
                let CreateIn { flags, mode, umask, .. } = self.take()?;
                Operation::Create { flags, mode, umask, name: self.name()? }
            }
            opcode::MKNOD => {
                let MknodIn { mode, rdev, umask, .. } = self.take()?;
                Operation::Mknod { mode, rdev, umask, name: self.name()? }
            }
            opcode::MKDIR => {
                let MkdirIn { mode, umask } = self.take()?;
                Operation::Mkdir { mode, umask, name: self.name()? }
            }
            opcode::SYMLINK => Operation::Symlink { name: self.name()?, target: self.text()? },
            opcode::GETXATTR => Operation::Getxattr { bytes: self.take::<Number>()?.value, name: self.text()? },
            opcode::REMOVEXATTR => Operation::Removexattr { name: self.text()? },
            opcode::SETXATTR => {
                let SetxattrIn { size, flags } = self.take()?;
                Operation::Setxattr { name: self.text()?, value: self.bytes(size as usize)?, flags }
            }
            unknown => Operation::Unknown(unknown),
        })
    }

    /// Takes the known part and leaves the rest: INIT grows with the versions.
    fn init(&mut self) -> Option<Init> {
        let InitIn { major, minor, max_readahead, flags } = self.take()?;
        let mut flags = u64::from(flags);
        if flags & flag::INIT_EXT != 0 {
            flags |= u64::from(self.take::<u32>()?) << 32;
        }
        Some(Init { major, minor, readahead_bytes_max: max_readahead, flags })
    }

    fn batch_forget(&mut self) -> Option<Operation<'a>> {
        let count = self.take::<Number>()?.value as usize;
        let forgets = self.bytes(count.checked_mul(size_of::<ForgetOne>())?)?;
        Some(Operation::BatchForget(Forgets(forgets)))
    }

    /// The kernel's range is not empty, and its kind one of fcntl(2).
    fn lock(&mut self) -> Option<Lock> {
        let LkIn { owner, lock, lk_flags, .. } = self.take()?;
        let kind = match lock.kind {
            lock_kind::SHARED => LockKind::Shared,
            lock_kind::EXCLUSIVE => LockKind::Exclusive,
            lock_kind::UNLOCK => LockKind::Unlock,
            _ => return None,
        };
        let (start, end, pid) = (lock.start, lock.end, lock.pid);
        let is_flock = lk_flags & LK_FLOCK != 0;
        (start <= end && end <= Lock::END).then_some(Lock { owner, kind, start, end, pid, is_flock })
    }

    fn data_only(&mut self) -> Option<bool> {
        Some(self.take::<FsyncIn>()?.fsync_flags & FSYNC_FDATASYNC != 0)
    }

    /// Takes arguments that no server needs.
    fn after<T: FromBytes>(&mut self, operation: Operation<'a>) -> Option<Operation<'a>> {
        self.take::<T>().map(|_| operation)
    }

    fn take<T: FromBytes>(&mut self) -> Option<T> {
        let (value, rest) = T::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Takes bytes up to a NUL, at least one.
    fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0).filter(|&end| end > 0)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Some(text)
    }

    /// Takes a name that a directory can have.
    fn name(&mut self) -> Option<&'a [u8]> {
        self.text().filter(|name| !name.contains(&b'/') && !matches!(*name, b"." | b".."))
    }
}

impl Setattr {
    fn new(from: &SetattrIn) -> Setattr {
        let has = |bit: u32| from.valid & bit != 0;
        let time = |given: u32, now: u32, seconds: u64, nanoseconds: u32| match (has(given), has(now)) {
            (_, true) => Some(SetTime::Now),
            (true, false) => Some(SetTime::At(seconds as i64, nanoseconds)),
            (false, false) => None,
        };
        Setattr {
            mode: has(fattr::MODE).then_some(from.mode),
            uid: has(fattr::UID).then_some(from.uid),
            gid: has(fattr::GID).then_some(from.gid),
            size: has(fattr::SIZE).then_some(from.size),
            atime: time(fattr::ATIME, fattr::ATIME_NOW, from.atime, from.atimensec),
            mtime: time(fattr::MTIME, fattr::MTIME_NOW, from.mtime, from.mtimensec),
        }
    }
}

#[cfg(test)]
mod tests;
