//! The user and the group of a file, as a mount shows them.
//!
//! The user namespace of an ordinary user's mount knows this user and one group. The kernel lets nobody write to a file,
//! or in a directory, whose owner or group it doesn't know, whatever the permissions, and lets not even its owner change
//! its attributes. So what this user owns or may write is shown as its own. Symbolic links are, too: where the kernel
//! protects them (`fs.protected_symlinks`), it follows a link in such a directory only if both seem to have one owner.

use headwater_abi::attr::Attr;
use rustix::process::{getegid, geteuid};

use crate::config::MountConfig;

/// The user and the groups of a mount.
#[derive(Debug)]
pub(crate) struct Owner {
    uid: u32,
    gid: u32,
    /// In a user namespace, the user's groups that it lacks.
    other_groups: Option<Vec<u32>>,
}

impl Owner {
    /// This process's user.
    pub(crate) fn of(mount: &MountConfig) -> Owner {
        Owner { uid: geteuid().as_raw(), gid: getegid().as_raw(), other_groups: mount.other_groups.clone() }
    }

    /// Returns the user and the group that are shown for a file.
    pub(crate) fn shown(&self, attr: &Attr) -> (u32, u32) {
        let Some(other_groups) = &self.other_groups else { return (attr.uid, attr.gid) };
        let is_member = attr.gid == self.gid || other_groups.contains(&attr.gid);
        let gid = if is_member { self.gid } else { attr.gid };
        let (owner, group, other) = (attr.mode >> 6 & 0o7, attr.mode >> 3 & 0o7, attr.mode & 0o7);
        let granted = match (attr.uid == self.uid, is_member) {
            (true, _) => owner,
            (false, true) => group,
            (false, false) => other,
        };
        // The kernel grants an owner what the owner's bits say. A link has all bits.
        let is_writable = granted & 0o2 != 0 && granted & !owner == 0;
        if is_writable || attr.uid == self.uid { (self.uid, self.gid) } else { (attr.uid, gid) }
    }
}

#[cfg(test)]
mod tests {
    use headwater_abi::attr::mode;

    use super::*;

    fn shown(mode: u32, uid: u32, gid: u32) -> (u32, u32) {
        let owner = Owner { uid: 1000, gid: 1000, other_groups: Some(vec![2000]) };
        owner.shown(&Attr { mode, uid, gid, ..Attr::default() })
    }

    #[test]
    fn what_the_user_owns_or_may_write_is_shown_as_its_own() {
        for (mode, uid, gid) in [
            (mode::DIR | 0o1777, 0, 0),
            (mode::DIR | 0o2775, 7, 2000),
            (mode::DIR | 0o775, 7, 1000),
            (mode::FILE | 0o664, 7, 2000),
            (mode::FILE | 0o600, 1000, 3000),
            (mode::FILE | 0o400, 1000, 3000),
            (mode::DIR, 1000, 0),
            (mode::LINK | 0o777, 0, 0),
        ] {
            assert_eq!(shown(mode, uid, gid), (1000, 1000), "{mode:o} {uid} {gid}");
        }
    }

    #[test]
    fn all_else_is_shown_as_it_is() {
        assert_eq!(shown(mode::DIR | 0o755, 0, 0), (0, 0));
        assert_eq!(shown(mode::FILE | 0o640, 7, 2000), (7, 1000));
        // The user is not in the group that may write.
        assert_eq!(shown(mode::DIR | 0o775, 7, 3000), (7, 3000));
        // As an owner it could not read any more.
        assert_eq!(shown(mode::FILE | 0o066, 0, 0), (0, 0));
        let root = Owner { uid: 0, gid: 0, other_groups: None };
        let attr = Attr { mode: mode::DIR | 0o777, uid: 7, gid: 7, ..Attr::default() };
        assert_eq!(root.shown(&attr), (7, 7));
    }
}
