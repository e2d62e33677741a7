//! Decoding of bytes to [`Request`]s. Bytes of the kernel are trusted no more than any others.

use zerocopy::FromBytes;

use crate::NodeId;
use crate::init::flag;
use crate::request::{DecodeError, Forgets, Init, Operation, Request, SetTime, Setattr};
use crate::wire::{
    BatchForgetIn, CopyFileRangeIn, CreateIn, FSYNC_FDATASYNC, FallocateIn, FlushIn, ForgetIn, ForgetOne, FsyncIn,
    GETATTR_FH, GetattrIn, InHeader, InitIn, InterruptIn, LinkIn, LseekIn, MkdirIn, MknodIn, Number, OpenIn, ReleaseIn,
    Rename2In, RenameIn, SetattrIn, SetxattrIn, StatxIn, TransferIn, WRITE_CACHE, fattr, opcode,
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
            opcode::BATCH_FORGET => self.batch_forget()?,
            opcode::FORGET => Operation::Forget { lookups: self.take::<ForgetIn>()?.nlookup },
            opcode::INTERRUPT => Operation::Interrupt { unique: self.take::<InterruptIn>()?.unique },
            opcode::DESTROY => Operation::Destroy,
            opcode::STATFS => Operation::Statfs,
            opcode::LOOKUP | opcode::UNLINK | opcode::RMDIR | opcode::LINK | opcode::RENAME | opcode::RENAME2 => {
                self.name_operation(opcode)?
            }
            opcode::CREATE | opcode::MKNOD | opcode::MKDIR | opcode::SYMLINK => self.creation(opcode)?,
            opcode::GETATTR | opcode::STATX | opcode::SETATTR | opcode::READLINK | opcode::ACCESS => {
                self.attribute_operation(opcode)?
            }
            opcode::GETXATTR | opcode::LISTXATTR | opcode::SETXATTR | opcode::REMOVEXATTR => self.xattr(opcode)?,
            opcode::OPENDIR | opcode::READDIR | opcode::READDIRPLUS | opcode::RELEASEDIR | opcode::FSYNCDIR => {
                self.directory_operation(opcode)?
            }
            opcode::OPEN
            | opcode::READ
            | opcode::WRITE
            | opcode::FLUSH
            | opcode::RELEASE
            | opcode::FSYNC
            | opcode::FALLOCATE
            | opcode::LSEEK
            | opcode::COPY_FILE_RANGE => self.file_operation(opcode)?,
            unknown => return Some(Operation::Unknown(unknown)),
        };
        self.0.is_empty().then_some(operation)
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
        let count = self.take::<BatchForgetIn>()?.count as usize;
        let forgets = self.bytes(count.checked_mul(size_of::<ForgetOne>())?)?;
        Some(Operation::BatchForget(Forgets(forgets)))
    }

    fn name_operation(&mut self, opcode: u32) -> Option<Operation<'a>> {
        Some(match opcode {
            opcode::LOOKUP => Operation::Lookup { name: self.name()? },
            opcode::UNLINK => Operation::Unlink { name: self.name()? },
            opcode::RMDIR => Operation::Rmdir { name: self.name()? },
            opcode::LINK => Operation::Link { existing: NodeId(self.take::<LinkIn>()?.oldnodeid), name: self.name()? },
            opcode::RENAME => {
                let to = NodeId(self.take::<RenameIn>()?.newdir);
                Operation::Rename { name: self.name()?, to, to_name: self.name()?, flags: 0 }
            }
            opcode::RENAME2 => {
                let Rename2In { newdir, flags, .. } = self.take()?;
                Operation::Rename { name: self.name()?, to: NodeId(newdir), to_name: self.name()?, flags }
            }
            _ => return None,
        })
    }

    fn creation(&mut self, opcode: u32) -> Option<Operation<'a>> {
        Some(match opcode {
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
            _ => return None,
        })
    }

    fn attribute_operation(&mut self, opcode: u32) -> Option<Operation<'a>> {
        let handle = |flags: u32, fh: u64| (flags & GETATTR_FH != 0).then_some(fh);
        Some(match opcode {
            opcode::GETATTR => {
                let GetattrIn { getattr_flags, fh, .. } = self.take()?;
                Operation::Getattr { handle: handle(getattr_flags, fh) }
            }
            opcode::STATX => {
                let StatxIn { getattr_flags, fh, sx_mask, .. } = self.take()?;
                Operation::Statx { handle: handle(getattr_flags, fh), mask: sx_mask }
            }
            opcode::SETATTR => Operation::Setattr(Setattr::new(&self.take()?)),
            opcode::READLINK => Operation::Readlink,
            opcode::ACCESS => Operation::Access { mask: self.take::<Number>()?.value },
            _ => return None,
        })
    }

    fn xattr(&mut self, opcode: u32) -> Option<Operation<'a>> {
        Some(match opcode {
            opcode::GETXATTR => Operation::Getxattr { bytes: self.take::<Number>()?.value, name: self.text()? },
            opcode::LISTXATTR => Operation::Listxattr { bytes: self.take::<Number>()?.value },
            opcode::REMOVEXATTR => Operation::Removexattr { name: self.text()? },
            opcode::SETXATTR => {
                let SetxattrIn { size, flags } = self.take()?;
                Operation::Setxattr { name: self.text()?, value: self.bytes(size as usize)?, flags }
            }
            _ => return None,
        })
    }

    fn directory_operation(&mut self, opcode: u32) -> Option<Operation<'a>> {
        Some(match opcode {
            opcode::OPENDIR => Operation::Opendir { flags: self.take::<OpenIn>()?.flags },
            opcode::READDIR => {
                let TransferIn { fh, offset, size, .. } = self.take()?;
                Operation::Readdir { handle: fh, offset, bytes: size }
            }
            opcode::READDIRPLUS => {
                let TransferIn { fh, offset, size, .. } = self.take()?;
                Operation::Readdirplus { handle: fh, offset, bytes: size }
            }
            opcode::RELEASEDIR => Operation::Releasedir { handle: self.take::<ReleaseIn>()?.fh },
            opcode::FSYNCDIR => {
                let FsyncIn { fh, fsync_flags, .. } = self.take()?;
                Operation::Fsyncdir { handle: fh, data_only: fsync_flags & FSYNC_FDATASYNC != 0 }
            }
            _ => return None,
        })
    }

    fn file_operation(&mut self, opcode: u32) -> Option<Operation<'a>> {
        Some(match opcode {
            opcode::OPEN => Operation::Open { flags: self.take::<OpenIn>()?.flags },
            opcode::READ => {
                let TransferIn { fh, offset, size, flags, .. } = self.take()?;
                Operation::Read { handle: fh, offset, bytes: size, flags }
            }
            opcode::WRITE => {
                let TransferIn { fh, offset, size, transfer_flags, flags, .. } = self.take()?;
                let is_from_cache = transfer_flags & WRITE_CACHE != 0;
                let data = self.bytes(size as usize)?;
                Operation::Write { handle: fh, offset, flags, is_from_cache, data }
            }
            opcode::FLUSH => Operation::Flush { handle: self.take::<FlushIn>()?.fh },
            opcode::RELEASE => {
                let ReleaseIn { fh, flags, .. } = self.take()?;
                Operation::Release { handle: fh, flags }
            }
            opcode::FSYNC => {
                let FsyncIn { fh, fsync_flags, .. } = self.take()?;
                Operation::Fsync { handle: fh, data_only: fsync_flags & FSYNC_FDATASYNC != 0 }
            }
            opcode::FALLOCATE => {
                let FallocateIn { fh, offset, length, mode, .. } = self.take()?;
                Operation::Fallocate { handle: fh, offset, bytes: length, mode }
            }
            opcode::LSEEK => {
                let LseekIn { fh, offset, whence, .. } = self.take()?;
                Operation::Lseek { handle: fh, offset, whence }
            }
            opcode::COPY_FILE_RANGE => {
                let CopyFileRangeIn { fh_in, off_in, nodeid_out, fh_out, off_out, len, .. } = self.take()?;
                Operation::CopyFileRange {
                    handle: fh_in,
                    offset: off_in,
                    to: NodeId(nodeid_out),
                    to_handle: fh_out,
                    to_offset: off_out,
                    bytes: len,
                }
            }
            _ => return None,
        })
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
            handle: has(fattr::FH).then_some(from.fh),
        }
    }
}

#[cfg(test)]
mod tests;
