//! The daemon's root and namespaces, which processes compare with their own.

use headwater_abi::table::View;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// Returns the daemon's root directory and namespaces, as far as the kernel shows them.
pub fn view() -> View {
    let stat = |path: &str| statx(CWD, path, AtFlags::empty(), StatxFlags::INO | StatxFlags::MNT_ID);
    let number = |path: &str| stat(path).map_or(0, |found| found.stx_ino);
    let mut view =
        View { mnt_ns: number("/proc/self/ns/mnt"), user_ns: number("/proc/self/ns/user"), ..View::default() };
    if let Ok(root) = stat("/") {
        view.root_dev = (root.stx_dev_major, root.stx_dev_minor);
        view.root_ino = root.stx_ino;
        let has_mnt_id = root.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        view.root_mnt_id = if has_mnt_id { root.stx_mnt_id } else { 0 };
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_sees_the_same_as_itself() {
        let view = view();
        assert_eq!(view, super::view());
        assert!(view.mnt_ns != 0 && view.user_ns != 0 && view.root_ino != 0, "{view:?}");
    }
}
