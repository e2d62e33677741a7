//! The rule of a reader with more permissions than its users: it reads only what all users may read.
//!
//! Names of a directory and content of a file are served if the mode grants them to `other`, along the whole path. An
//! access control list can only deny: what it denies to a named user or group is denied to all, because no node down
//! the tree could enforce the difference. The bits of owner and group travel with the attributes, and each node's
//! kernel checks them.

use std::os::fd::{AsFd, AsRawFd};

use headwater_abi::Attr;
use rustix::fs::getxattr;
use rustix::io::Errno;

/// The list's name, and its longest length in bytes: about five hundred entries.
const LIST: &str = "system.posix_acl_access";
const LIST_BYTES_MAX: usize = 4096;

/// A permission, as its bit in a mode's last digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Permission {
    /// Read a file, or a directory's names.
    Read = 4,
    /// Use names in a directory.
    Search = 1,
}

/// Checks that all users have this permission for the open file `fd`, which may be `O_PATH`.
///
/// # Errors
/// EACCES if a user may lack it, or if that is unknown.
pub(super) fn check(fd: impl AsFd, attr: &Attr, permission: Permission) -> Result<(), Errno> {
    if attr.mode & permission as u32 == 0 {
        return Err(Errno::ACCESS);
    }
    let mut list = [0; LIST_BYTES_MAX];
    match getxattr(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()), LIST, &mut list[..]) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        Ok(bytes) if allows_all(&list[..bytes], permission) => Ok(()),
        Ok(_) | Err(_) => Err(Errno::ACCESS),
    }
}

/// Returns true if each entry of an access control list grants it. The entries of owner and others equal the mode and
/// are skipped. The format is that of linux/posix_acl_xattr.h.
fn allows_all(list: &[u8], permission: Permission) -> bool {
    const VERSION: u32 = 2;
    /// A named user, the owning group, a named group, the mask.
    const TAGS: [u16; 4] = [0x02, 0x04, 0x08, 0x10];
    let Some((version, entries)) = list.split_first_chunk::<4>() else { return false };
    let (entries, rest) = entries.as_chunks::<8>();
    if u32::from_le_bytes(*version) != VERSION || !rest.is_empty() {
        return false;
    }
    let counts = |&&[low, high, ..]: &&[u8; 8]| TAGS.contains(&u16::from_le_bytes([low, high]));
    entries.iter().filter(counts).all(|&[_, _, permissions, ..]| u32::from(permissions) & permission as u32 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An access control list of these tags and permissions.
    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let entry = |&(tag, permissions): &(u16, u16)| {
            [tag.to_le_bytes(), permissions.to_le_bytes(), [0xff; 2], [0xff; 2]].concat()
        };
        [2u32.to_le_bytes().to_vec(), entries.iter().flat_map(entry).collect()].concat()
    }

    #[test]
    fn lists_only_take_away() {
        let check = |entries: &[(u16, u16)], expected: [bool; 2]| {
            let list = list(entries);
            assert_eq!(
                [Permission::Read, Permission::Search].map(|permission| allows_all(&list, permission)),
                expected,
                "{entries:?}"
            );
        };
        let (owner, user, group_object, group, mask, other) = (0x01, 0x02, 0x04, 0x08, 0x10, 0x20);
        check(&[(owner, 0), (group_object, 5), (other, 0)], [true, true]);
        check(&[(owner, 7), (user, 0), (group_object, 5), (mask, 7), (other, 5)], [false, false]);
        check(&[(owner, 7), (user, 5), (group_object, 1), (mask, 7), (other, 5)], [false, true]);
        check(&[(owner, 7), (user, 4), (group_object, 7), (group, 6), (mask, 7), (other, 5)], [true, false]);
        check(&[(owner, 7), (user, 7), (group_object, 7), (mask, 4), (other, 5)], [true, false]);
    }

    #[test]
    fn what_is_denied_to_one_user_is_denied_to_all() {
        let file = tempfile::tempfile().unwrap();
        let attr = Attr { mode: 0o100_644, ..Attr::default() };
        let mut list = list(&[(0x01, 6), (0x02, 0), (0x04, 4), (0x10, 4), (0x20, 4)]);
        // The ID of the named user; the other entries have none.
        list[16..20].copy_from_slice(&7u32.to_le_bytes());
        match rustix::fs::fsetxattr(&file, LIST, &list, rustix::fs::XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => return println!("skipped: the temporary directory has no access control lists"),
            result => result.unwrap(),
        }
        assert_eq!(check(&file, &attr, Permission::Read), Err(Errno::ACCESS));
        rustix::fs::fremovexattr(&file, LIST).unwrap();
        assert_eq!(check(&file, &attr, Permission::Read), Ok(()));
    }

    #[test]
    fn what_is_no_list_allows_nothing() {
        let whole = list(&[(0x01, 7), (0x20, 5)]);
        assert!(allows_all(&whole, Permission::Read));
        for wrong in [&whole[..3], &whole[..whole.len() - 1], &[3, 0, 0, 0], &[]] {
            assert!(!allows_all(wrong, Permission::Read), "{wrong:?}");
        }
    }

    #[test]
    fn modes_are_those_of_others() {
        let file = tempfile::tempfile().unwrap();
        let check = |mode, permission| check(&file, &Attr { mode, ..Attr::default() }, permission);
        assert_eq!(check(0o100_664, Permission::Read), Ok(()));
        assert_eq!(check(0o100_640, Permission::Read), Err(Errno::ACCESS));
        assert_eq!(
            (check(0o040_751, Permission::Search), check(0o040_751, Permission::Read)),
            (Ok(()), Err(Errno::ACCESS))
        );
        assert_eq!(check(0o040_754, Permission::Search), Err(Errno::ACCESS));
    }
}
