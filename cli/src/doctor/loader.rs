//! Whether this C library's loader audits, by trial.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Check;
use crate::prepare;

const NAME: &str = "audit";
/// A small program that is dynamically linked almost everywhere.
const PROGRAM: &str = "/bin/sh";
/// No library, which a loader that audits complains about.
const NO_LIBRARY: &str = "/proc/self/no-such-library.so";

/// Whether the audit library is installed and gets loaded.
pub fn audit() -> Check {
    let library = match prepare::find_audit_library() {
        Ok(library) => library,
        Err(error) => return Check::missing(NAME, "the audit library is not installed", format!("{error:#}")),
    };
    if complaint(NO_LIBRARY.as_ref()).is_none_or(|said| !said.contains(NO_LIBRARY)) {
        return Check::missing(
            NAME,
            format!("{PROGRAM}'s loader does not audit"),
            "auditing needs programs that are linked with glibc",
        );
    }
    match complaint(library.as_os_str()) {
        Some(said) if said.is_empty() => Check::ok(NAME, library.display().to_string()),
        Some(said) => Check::missing(
            NAME,
            format!("the loader refuses {}: {}", library.display(), said.trim()),
            "build it for this machine with `cargo xtask dist`",
        ),
        None => Check::missing(NAME, format!("{PROGRAM} can't be audited"), "use --via namespace"),
    }
}

/// What a program says on standard error when it is audited by this library; `None` if it fails.
fn complaint(library: &OsStr) -> Option<String> {
    let mut command = Command::new(PROGRAM);
    command.args(["-c", ":"]).env_clear().env("LD_AUDIT", Path::new(library)).stdin(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loader_that_audits_complains_about_what_is_not_there() {
        assert!(complaint(NO_LIBRARY.as_ref()).unwrap().contains(NO_LIBRARY));
    }
}
