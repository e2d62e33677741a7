//! Checks of the kernel: its version, FUSE, namespaces, and the program that mounts for ordinary users.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use headwater_fuse::init::flag;

use super::check::Check;
use crate::namespace::{
    Features, Found, device_step, explain_user_namespaces, may_mount, setting, user_namespaces_forbidden,
};

const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";
/// The first kernel with a sufficient FUSE protocol (7.31), and with `open_tree`.
const VERSION_MIN: (u32, u32) = (5, 4);
/// The first kernel that resends the requests of a dead daemon.
const VERSION_RESENDS: (u32, u32) = (6, 9);
/// The largest READ where the kernel allows it.
const REQUEST_BYTES: usize = 1 << 20;

/// Checks the kernel's version.
pub fn version() -> Check {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    match numbers(&release) {
        Some(version) if version < VERSION_MIN => {
            Check::missing("kernel", release, "use --via audit, or Linux 5.4 or newer for namespaces and mounts")
        }
        Some(version) if version < VERSION_RESENDS => Check::warning(
            "kernel",
            release,
            "from Linux 6.9 on, pending requests of programs survive the death of a mount's daemon",
        ),
        _ => Check::ok("kernel", release),
    }
}

fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// Returns whether `/dev/fuse` exists.
pub fn has_device() -> bool {
    fs::metadata(DEVICE).is_ok_and(|m| m.file_type().is_char_device())
}

/// Checks whether this user can open `/dev/fuse`.
pub fn device() -> Check {
    match File::options().read(true).write(true).open(DEVICE) {
        Ok(_) => Check::ok(DEVICE, "can be opened"),
        Err(error) => Check::missing(DEVICE, format!("can't be opened: {error}"), device_step(&error)),
    }
}

/// Checks the features of the kernel's FUSE.
pub fn features(found: &Found) -> Check {
    let Found::Usable { features, .. } = found else {
        return Check::warning(
            "FUSE",
            "its features are not known",
            "make namespaces possible first; their check names the step",
        );
    };
    describe(*features, setting("fs/fuse/max_pages_limit"))
}

fn describe(features: Features, pages_max: Option<u64>) -> Check {
    let has = |flag: u64| features.flags & flag != 0;
    let pages = (REQUEST_BYTES / rustix::param::page_size()) as u64;
    let list = [
        ("no-open", has(flag::NO_OPEN_SUPPORT)),
        ("no-opendir", has(flag::NO_OPENDIR_SUPPORT)),
        ("expiry of names", has(flag::HAS_EXPIRE_ONLY)),
        ("resending", has(flag::HAS_RESEND)),
        ("passthrough", has(flag::PASSTHROUGH)),
        ("1 MiB requests", has(flag::MAX_PAGES) && pages_max.is_none_or(|max| max >= pages)),
    ];
    let with = |wanted: bool| list.iter().filter(|(_, has)| *has == wanted).map(|(name, _)| *name).collect::<Vec<_>>();
    let found = format!("protocol 7.{}: {}", features.minor, with(true).join(", "));
    match with(false)[..] {
        [] => Check::ok("FUSE", found),
        ["1 MiB requests"] if has(flag::MAX_PAGES) => {
            let next = format!("as root, `sysctl fs.fuse.max_pages_limit={pages}` makes big files quicker");
            Check::warning("FUSE", found, next)
        }
        _ => Check::warning("FUSE", found, format!("a newer kernel also has {}", with(false).join(", "))),
    }
}

/// Checks whether a namespace with a mount can be made, by trial.
pub fn namespaces(found: &Found) -> Check {
    match found {
        Found::Usable { needs_user_namespace: false, .. } => {
            Check::ok("namespace", "this user can make a mount namespace")
        }
        Found::Usable { .. } => Check::ok("namespace", "this user can make a mount namespace in a user namespace"),
        Found::Unusable(why) => Check::missing("namespace", "can't be made", why),
    }
}

/// Checks whether ordinary users may make user namespaces, by the settings.
pub fn user_namespaces(found: &Found) -> Check {
    const NAME: &str = "user namespaces";
    if matches!(found, Found::Usable { needs_user_namespace: true, .. }) {
        return Check::ok(NAME, "can be made");
    }
    match (user_namespaces_forbidden(), may_mount()) {
        (false, true) => Check::ok(NAME, "are allowed; this user needs none"),
        (false, false) => Check::ok(NAME, "are allowed by the settings"),
        (true, true) => Check::warning(NAME, "ordinary users may make none", explain_user_namespaces()),
        (true, false) => Check::missing(NAME, "can't be made", explain_user_namespaces()),
    }
}

/// Checks whether mounts can be made and removed outside of namespaces.
pub fn helper() -> Check {
    if may_mount() {
        return Check::ok(HELPER, "not needed: this user may mount");
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let found: Option<PathBuf> = env::split_paths(&path).map(|p| p.join(HELPER)).find(|p| p.is_file());
    let Some(file) = found else {
        return Check::missing(HELPER, "is not in PATH", "for mounts, install the package fuse3");
    };
    let is_privileged = fs::metadata(&file).is_ok_and(|m| m.mode() & 0o4000 != 0 && m.uid() == 0);
    match is_privileged {
        true => Check::ok(HELPER, file.display().to_string()),
        false => Check::missing(
            HELPER,
            format!("{} is not set-user-ID root", file.display()),
            format!("for mounts, as root, `chown root {0} && chmod u+s {0}`", file.display()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckResult;
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(numbers("6.18.44-fc"), Some((6, 18)));
        assert_eq!(numbers("5.14-rc1"), Some((5, 14)));
        assert_eq!(numbers("next"), None);
        assert!(numbers("5.14.0") < Some(VERSION_RESENDS));
    }

    #[test]
    fn missing_fuse_features_are_listed() {
        let all = flag::NO_OPEN_SUPPORT
            | flag::NO_OPENDIR_SUPPORT
            | flag::HAS_EXPIRE_ONLY
            | flag::HAS_RESEND
            | flag::PASSTHROUGH
            | flag::MAX_PAGES;
        let features = |flags| Features { minor: 45, flags };
        assert_eq!(describe(features(all), Some(256)).verdict, CheckResult::Ok);
        assert_eq!(describe(features(all), None).verdict, CheckResult::Ok);
        let small = describe(features(all), Some(1));
        assert!(small.next.unwrap().contains("max_pages_limit"));
        let old = describe(features(all & !flag::HAS_RESEND & !flag::PASSTHROUGH), None);
        assert_eq!(old.next.unwrap(), "a newer kernel also has resending, passthrough");
        assert_eq!(old.found, "protocol 7.45: no-open, no-opendir, expiry of names, 1 MiB requests");
    }
}
