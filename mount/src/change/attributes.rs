//! Setting attributes.

use headwater_fuse::request::{SetTime, Setattr};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags, chmod, chownat, ftruncate,
    removexattr, setxattr, utimensat,
};
use rustix::io::Errno;

use super::content::writer;
use super::passthrough::{Stop, passthrough_target};
use crate::call::{Call, Flow, answered};
use crate::caller::as_caller;
use crate::source_file::{Target, shown, target_of};
use crate::view::ACL_PREFIX;

/// The set-user-ID and set-group-ID bits.
const SET_ID: u32 = 0o6000;

/// SETATTR, in the order in which the kernel's own file systems do it.
pub(super) fn set(call: &Call<'_>, wanted: &Setattr) -> Result<Flow, Stop> {
    let (path, target) = passthrough_target(call)?;
    if let Some(size) = wanted.size {
        let writer = writer(call, &path)?;
        as_caller(call.request, || ftruncate(&*writer.fd, size))?;
    }
    let link = target.magic_link();
    let is_empty = *wanted == Setattr::default();
    if wanted.uid.is_some() || wanted.gid.is_some() || is_empty {
        let (owner, group) = (wanted.uid.map(Uid::from_raw), wanted.gid.map(Gid::from_raw));
        match as_caller(call.request, || chownat(CWD, &link, owner, group, AtFlags::empty())) {
            // `chown(path, -1, -1)` requests nothing but the time of the change. A write by another than the owner
            // requests the same of a file with a set-ID bit, and then clears the bit by itself.
            Err(Errno::PERM) if is_empty => {}
            result => result?,
        }
    }
    if let Some(mode) = wanted.mode {
        set_mode(call, &target, &link, mode)?;
    }
    if let Some(times) = times(wanted) {
        as_caller(call.request, || utimensat(CWD, &link, &times, AtFlags::empty()))?;
    }
    let target = target_of(call, &path)?;
    Ok(answered(call.reply.attr(&shown(call.view, &path, &target), call.source_ttl(&path))))
}

/// SETXATTR.
pub(super) fn set_xattr(call: &Call<'_>, name: &[u8], value: &[u8], flags: u32) -> Result<Flow, Stop> {
    refuse_local(call, name)?;
    let (_, target) = passthrough_target(call)?;
    as_caller(call.request, || setxattr(target.magic_link(), name, value, XattrFlags::from_bits_retain(flags)))?;
    Ok(answered(call.reply.ok()))
}

/// REMOVEXATTR.
pub(super) fn remove_xattr(call: &Call<'_>, name: &[u8]) -> Result<Flow, Stop> {
    refuse_local(call, name)?;
    let (_, target) = passthrough_target(call)?;
    as_caller(call.request, || removexattr(target.magic_link(), name))?;
    Ok(answered(call.reply.ok()))
}

/// Refuses changes of attributes that the mount answers itself.
fn refuse_local(call: &Call<'_>, name: &[u8]) -> Result<(), Errno> {
    let is_local = name.starts_with(ACL_PREFIX) && call.view.has_user_namespace() || name.starts_with(b"security.");
    if is_local { Err(Errno::OPNOTSUPP) } else { Ok(()) }
}

fn set_mode(call: &Call<'_>, target: &Target, link: &str, mode: u32) -> Result<(), Errno> {
    let change = || chmod(link, Mode::from_raw_mode(mode & 0o7777));
    match as_caller(call.request, change) {
        // A write clears these bits also for a writer that is not the owner; the kernel requests it in the writer's
        // name.
        Err(Errno::PERM) if mode & 0o7777 == target.attr.mode & 0o7777 & !SET_ID => change(),
        result => result,
    }
}

/// Returns the times to set. A time that accompanies a size is set by the truncation itself.
fn times(wanted: &Setattr) -> Option<Timestamps> {
    let time = |time: Option<SetTime>| match time {
        Some(SetTime::At(seconds, nanoseconds)) => Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
        Some(SetTime::Now) if wanted.size.is_none() => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        _ => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    let times = Timestamps { last_access: time(wanted.atime), last_modification: time(wanted.mtime) };
    let is_omitted = |time: &Timespec| time.tv_nsec == UTIME_OMIT;
    (!is_omitted(&times.last_access) || !is_omitted(&times.last_modification)).then_some(times)
}
