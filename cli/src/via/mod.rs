//! Chooses a program's mechanism.
//!
//! Best first: a *namespace*, in which any program finds each file under its original path; *audit*, which needs a
//! program that glibc's loader starts, and nothing of the kernel; none (*off*). A *mount* changes the program's paths,
//! so it is used only on request.

pub mod loader;
pub mod prefix;
mod program;

use std::fmt;
use std::path::Path as FsPath;

use clap::ValueEnum;
pub use program::{Program, enters_container, set_id_user_in};
use serde::{Deserialize, Serialize};

use crate::namespace::Found;

/// The device through which file systems are mounted.
const DEVICE: &str = "/dev/fuse";

/// The user's choice of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// The best that is possible here.
    Auto,
    /// A view of the files over the original directories, in a mount namespace of the program.
    Namespace,
    /// A library in the program, by the loader's audit interface.
    Audit,
    /// A view of the files below another directory, which the program's paths are changed to.
    Mount,
    /// None: the program as it is.
    Off,
}

/// A mechanism by which files reach a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A mount namespace.
    Namespace {
        /// Whether it needs a user namespace.
        has_user_namespace: bool,
    },
    /// The audit library.
    Audit {
        /// Whether large files are read in a mount beside it.
        has_mount: bool,
    },
    /// A mount under a prefix.
    Mount,
    /// None: the shared file system itself.
    Off,
}

/// A mechanism, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The reason.
    pub reason: String,
}

impl Mechanism {
    /// The audit library, and no mount.
    pub const AUDIT_ALONE: Mechanism = Mechanism::Audit { has_mount: false };

    /// Returns whether processes load the audit library.
    pub fn is_audit(self) -> bool {
        matches!(self, Mechanism::Audit { .. })
    }

    /// Returns its name in `--via`.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Namespace { .. } => "namespace",
            Mechanism::Audit { .. } => "audit",
            Mechanism::Mount => "mount",
            Mechanism::Off => "off",
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "via {}: {}", self.mechanism.name(), self.reason)
    }
}

/// Returns what `probe` finds, if what the program starts is served, too: a namespace can't leave it out.
pub fn probe_if(follows_fork: bool, probe: impl FnOnce() -> Found) -> Found {
    let why = "--follow-fork no needs audit: what a program starts stays in its namespace";
    if follows_fork { probe() } else { Found::Unusable(why.into()) }
}

impl Choice {
    /// Chooses the mechanism for `program`; `is_root`: the user is root. Calls `probe` if the kernel matters.
    pub fn make(asked: Via, program: &Program, is_root: bool, probe: impl FnOnce() -> Found) -> Choice {
        let demanded = || format!("--via {}", asked.to_possible_value().map_or(String::new(), |v| v.get_name().into()));
        match asked {
            Via::Off => Choice::of(Mechanism::Off, demanded()),
            Via::Audit => Choice::of(Mechanism::AUDIT_ALONE, demanded()),
            Via::Mount => Choice::of(Mechanism::Mount, demanded()),
            Via::Namespace => match probe() {
                Found::Usable { needs_user_namespace, .. } => Choice::namespace(needs_user_namespace, demanded()),
                Found::Unusable(why) => Choice::without_kernel(program, why),
            },
            Via::Auto => Choice::best(program, is_root, probe),
        }
    }

    fn best(program: &Program, is_root: bool, probe: impl FnOnce() -> Found) -> Choice {
        if let Some(why) = program.not_in_any_namespace() {
            return Choice::without_kernel(program, why);
        }
        match probe() {
            Found::Unusable(why) => Choice::without_kernel(program, why),
            Found::Usable { needs_user_namespace: false, .. } => {
                Choice::namespace(false, "this user can make a mount namespace".into())
            }
            Found::Usable { .. } if is_root => Choice::without_kernel(
                program,
                "root would lose its rights over other users' files in a user namespace, and may not mount without \
                 one"
                .into(),
            ),
            Found::Usable { .. } => match program.not_in_a_user_namespace() {
                Some(why) => Choice::without_kernel(program, why),
                None => Choice::namespace(true, "the kernel lets this user mount in a user namespace".into()),
            },
        }
    }

    /// Returns the next mechanism after this one failed; for `is_mount_useful` see [`Choice::with_mount_beside`].
    pub fn after_failure(&self, program: &Program, why: &str, is_mount_useful: bool) -> Choice {
        match self.mechanism {
            Mechanism::Namespace { .. } | Mechanism::Mount => {
                Choice::without_kernel(program, why.into()).with_mount_beside(is_mount_useful)
            }
            Mechanism::Audit { has_mount: true } => Choice::of(Mechanism::AUDIT_ALONE, self.reason.clone()),
            Mechanism::Audit { has_mount: false } | Mechanism::Off => Choice::off(why.into()),
        }
    }

    /// Returns the choice with a mount beside audit, if one is useful and this machine may have one. Whether it can be
    /// made is seen when it is tried.
    pub fn with_mount_beside(mut self, is_useful: bool) -> Choice {
        if let Mechanism::Audit { has_mount } = &mut self.mechanism {
            *has_mount = is_useful && FsPath::new(DEVICE).exists();
        }
        self
    }

    /// Returns no mechanism.
    pub fn off(reason: String) -> Choice {
        Choice::of(Mechanism::Off, reason)
    }

    /// Returns the best mechanism that needs nothing of the kernel; `why` is the reason against the others.
    fn without_kernel(program: &Program, why: String) -> Choice {
        match program
            .not_audited()
            .or_else(|| program.starts_unaudited())
            .or_else(|| loader::fault().map(str::to_owned))
        {
            None => Choice::of(Mechanism::AUDIT_ALONE, why),
            Some(because) => Choice::of(Mechanism::Off, format!("{because}; and {why}")),
        }
    }

    fn namespace(has_user_namespace: bool, reason: String) -> Choice {
        Choice::of(Mechanism::Namespace { has_user_namespace }, reason)
    }

    fn of(mechanism: Mechanism, reason: String) -> Choice {
        Choice { mechanism, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Features;

    fn found(needs_user_namespace: bool) -> Found {
        Found::Usable { needs_user_namespace, features: Features { minor: 45, flags: 0 } }
    }

    #[track_caller]
    fn check(asked: Via, program: &Program, is_root: bool, found: Found, expected: Mechanism, reason: &str) {
        let choice = Choice::make(asked, program, is_root, || found);
        assert_eq!(choice.mechanism, expected, "{}", choice.reason);
        assert!(choice.reason.contains(reason), "{}", choice.reason);
    }

    const PRIVILEGED: Mechanism = Mechanism::Namespace { has_user_namespace: false };
    const ORDINARY: Mechanism = Mechanism::Namespace { has_user_namespace: true };

    #[test]
    fn auto_takes_the_best() {
        let none = || Found::Unusable("no /dev/fuse".into());
        let (app, go) = (Program::named("app"), Program::static_named("go"));
        check(Via::Auto, &app, true, found(false), PRIVILEGED, "can make a mount namespace");
        check(Via::Auto, &app, false, found(true), ORDINARY, "user namespace");
        check(Via::Auto, &app, false, none(), Mechanism::AUDIT_ALONE, "no /dev/fuse");
        check(Via::Auto, &app, true, found(true), Mechanism::AUDIT_ALONE, "root would lose");
        check(Via::Auto, &go, false, found(true), ORDINARY, "user namespace");
        let unfollowed = || probe_if(false, || found(false));
        check(Via::Auto, &app, true, unfollowed(), Mechanism::AUDIT_ALONE, "--follow-fork no needs audit");
        check(Via::Auto, &go, true, unfollowed(), Mechanism::Off, "--follow-fork no needs audit");
        check(Via::Auto, &go, false, none(), Mechanism::Off, "statically linked; and no /dev/fuse");
    }

    #[test]
    fn auto_spares_what_a_namespace_would_harm() {
        for name in ["ssh", "mpirun", "rsync"] {
            check(Via::Auto, &Program::named(name), false, found(true), Mechanism::AUDIT_ALONE, "ssh");
            check(Via::Auto, &Program::named(name), true, found(false), PRIVILEGED, "");
        }
        for is_root in [false, true] {
            check(Via::Auto, &Program::named("srun"), is_root, found(!is_root), Mechanism::AUDIT_ALONE, "outside");
        }
        check(Via::Auto, &Program::named("fakeroot"), false, found(true), Mechanism::AUDIT_ALONE, "changes owners");
        check(Via::Auto, &Program::named("fakeroot"), true, found(false), PRIVILEGED, "");
        let set_id = Program::set_id_named("tool");
        check(Via::Auto, &set_id, false, found(true), Mechanism::Off, "set-user-ID");
        check(Via::Auto, &set_id, true, found(false), PRIVILEGED, "");
    }

    #[test]
    fn auto_never_audits_what_enters_a_container() {
        let none = || Found::Unusable("no /dev/fuse".into());
        for name in ["ch-run", "bwrap", "chroot", "apptainer", "podman"] {
            let program = Program::named(name);
            check(Via::Auto, &program, true, found(false), PRIVILEGED, "");
            check(Via::Auto, &program, false, none(), Mechanism::Off, "doesn't reach into");
            check(Via::Auto, &program, true, none(), Mechanism::Off, "no /dev/fuse");
            check(Via::Audit, &program, false, found(true), Mechanism::AUDIT_ALONE, "--via audit");
        }
        check(Via::Auto, &Program::named("ch-run"), false, found(true), ORDINARY, "user namespace");
        check(Via::Auto, &Program::named("apptainer"), false, found(true), Mechanism::Off, "set-ID");
        check(Via::Auto, &Program::named("squashfuse"), false, found(true), Mechanism::AUDIT_ALONE, "set-ID");
    }

    #[test]
    fn what_is_asked_for_is_taken_if_it_can_be_had() {
        let (ssh, go) = (Program::named("ssh"), Program::static_named("go"));
        check(Via::Namespace, &ssh, false, found(true), ORDINARY, "--via namespace");
        check(Via::Namespace, &ssh, false, Found::Unusable("no".into()), Mechanism::AUDIT_ALONE, "no");
        check(Via::Audit, &go, false, found(true), Mechanism::AUDIT_ALONE, "--via audit");
        check(Via::Mount, &ssh, false, found(true), Mechanism::Mount, "--via mount");
        check(Via::Off, &ssh, false, found(true), Mechanism::Off, "--via off");
        let failed = Choice::make(Via::Mount, &ssh, false, || found(true)).after_failure(&ssh, "it broke", false);
        assert_eq!((failed.mechanism, &*failed.reason), (Mechanism::AUDIT_ALONE, "it broke"));
        assert_eq!(failed.after_failure(&ssh, "again", false), Choice::off("again".into()));
        let beside = Choice { mechanism: Mechanism::Audit { has_mount: true }, reason: "it is best".into() };
        let without = beside.after_failure(&ssh, "no fusermount3", true);
        assert_eq!((without.mechanism, &*without.reason), (Mechanism::AUDIT_ALONE, "it is best"));
        assert_eq!(without.with_mount_beside(false).mechanism, Mechanism::AUDIT_ALONE);
    }
}
