//! Why a kernel or its administrator refuses namespaces and FUSE, and the next step.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;

/// What Docker, Podman, and Apptainer put into each container.
const CONTAINER_MARKS: [&str; 3] = ["/.dockerenv", "/run/.containerenv", "/.singularity.d"];
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
    step(error, is_in_container())
}

fn step(error: &io::Error, is_in_container: bool) -> &'static str {
    // A container's list of devices refuses by EPERM, and a mode by EACCES.
    let is_refused_by_mode = Errno::from_io_error(error) == Some(Errno::ACCESS);
    match error.kind() {
        _ if is_in_container && !is_refused_by_mode => "start the container with --device /dev/fuse",
        io::ErrorKind::NotFound => "as root, `modprobe fuse` makes it",
        io::ErrorKind::PermissionDenied => "as root, `chmod 666 /dev/fuse`, as distributions do",
        _ => "in a container, pass the device in (--device /dev/fuse)",
    }
}

/// Returns whether a container's tool has left its mark.
fn is_in_container() -> bool {
    let is_marked = CONTAINER_MARKS.iter().any(|mark| Path::new(mark).exists());
    is_marked || std::env::var_os("container").is_some_and(|tool| !tool.is_empty())
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
        for (errno, is_in_container, expected) in [
            (Errno::ACCESS, false, "as root, `chmod 666 /dev/fuse`"),
            (Errno::ACCESS, true, "as root, `chmod 666 /dev/fuse`"),
            (Errno::NOENT, false, "modprobe fuse"),
            (Errno::NOENT, true, "start the container with --device /dev/fuse"),
            (Errno::PERM, true, "start the container with --device /dev/fuse"),
        ] {
            let step = step(&errno.into(), is_in_container);
            assert!(step.contains(expected), "{errno} {is_in_container}: {step}");
        }
        assert!(device(&Errno::NXIO.into()).contains("--device /dev/fuse"));
        assert!(user_namespace(Errno::NOSPC).contains("max_user_namespaces"));
        assert!(user_namespace(Errno::NOMEM).contains("memory"));
    }
}
