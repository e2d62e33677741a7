//! Why a kernel or its administrator refuses namespaces and FUSE, and the next step.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;

/// AppArmor's setting by which user namespaces of ordinary users have no rights.
const RESTRICTION: &str = "kernel/apparmor_restrict_unprivileged_userns";

/// Returns why a user namespace was refused, and the next step.
pub fn user_namespace(errno: Errno) -> String {
    let reason = match errno {
        _ if user_namespaces_forbidden() => user_namespaces(),
        Errno::NOSPC | Errno::USERS => {
            "there are too many already; `sysctl user.max_user_namespaces` shows the limit".to_owned()
        }
        Errno::PERM => "a container's profile, or a chroot, forbids them".to_owned(),
        Errno::INVAL => "this kernel was built without them (CONFIG_USER_NS)".to_owned(),
        _ => io::Error::from(errno).to_string(),
    };
    format!("the kernel refuses user namespaces: {reason}")
}

/// Returns the step that allows ordinary users to make user namespaces.
pub fn user_namespaces() -> String {
    let step = if setting("user/max_user_namespaces") == Some(0) {
        "sysctl user.max_user_namespaces=15000"
    } else if setting("kernel/unprivileged_userns_clone") == Some(0) {
        "sysctl kernel.unprivileged_userns_clone=1"
    } else if setting(RESTRICTION).is_some_and(|s| s != 0) {
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    } else {
        return "they need a kernel with CONFIG_USER_NS".to_owned();
    };
    format!("as root, `{step}` allows them")
}

/// Returns whether a setting prevents usable user namespaces of ordinary users.
pub fn user_namespaces_forbidden() -> bool {
    setting("user/max_user_namespaces") == Some(0)
        || setting("kernel/unprivileged_userns_clone") == Some(0)
        || setting(RESTRICTION).is_some_and(|s| s != 0)
        || !Path::new("/proc/self/ns/user").exists()
}

/// Returns why `/dev/fuse` can't be opened, and the next step.
pub fn device(error: &io::Error) -> String {
    format!("/dev/fuse can't be opened ({error}); {}", device_step(error))
}

/// Returns the next step if `/dev/fuse` can't be opened.
pub fn device_step(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "as root, `modprobe fuse` makes it",
        io::ErrorKind::PermissionDenied => "as root, `chmod 666 /dev/fuse`, as distributions do",
        _ => "in a container, pass the device in (--device /dev/fuse)",
    }
}

/// Reads a number in `/proc/sys`; `None` if this kernel lacks the setting.
pub fn setting(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_names_a_next_step() {
        let denied = device(&io::ErrorKind::PermissionDenied.into());
        assert!(denied.contains("chmod 666 /dev/fuse"), "{denied}");
        assert!(device(&io::ErrorKind::NotFound.into()).contains("modprobe fuse"));
        assert!(user_namespace(Errno::NOSPC).contains("max_user_namespaces"));
        assert!(user_namespace(Errno::NOMEM).contains("memory"));
    }
}
