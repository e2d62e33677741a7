//! Checks whether this C library's loader supports LD_AUDIT, by trial.

use std::ffi::OsStr;

use super::check::Check;
use crate::io::preload;
use crate::io::trial::{self, PROGRAM};
use crate::session::prepare;
use crate::via::loader::fault;

const NAME: &str = "audit";
const MPI_IO: &str = "MPI I/O";
/// A missing library, about which an auditing loader complains.
const NO_LIBRARY: &str = "/proc/self/no-such-library.so";

/// Checks whether the audit library is installed and loadable.
pub fn audit() -> Check {
    let library = match prepare::find_audit_library() {
        Ok(library) => library,
        Err(error) => return Check::missing(NAME, "the audit library is not installed", format!("{error:#}")),
    };
    if complaint(NO_LIBRARY.as_ref()).is_none_or(|stderr| !stderr.contains(NO_LIBRARY)) {
        return Check::missing(
            NAME,
            format!("{PROGRAM}'s loader does not audit"),
            "auditing needs programs that are linked with glibc",
        );
    }
    match complaint(library.as_os_str()) {
        Some(stderr) if stderr.is_empty() => match fault() {
            None => Check::ok(NAME, library.display().to_string()),
            Some(fault) => Check::warning(
                NAME,
                format!("{}; {fault}", library.display()),
                "`--via auto` leaves such programs alone where it can make no namespace; `--via audit` is for programs \
                 that don't call dlmopen",
            ),
        },
        Some(stderr) => Check::missing(
            NAME,
            format!("the loader refuses {}: {}", library.display(), stderr.trim()),
            "build it for this machine with `cargo xtask dist`",
        ),
        None => Check::missing(NAME, format!("{PROGRAM} can't be audited"), "use --via namespace"),
    }
}

/// Checks for which MPIs the I/O library is installed.
pub fn mpi_io() -> Check {
    let without = "`headwater run --io` does nothing here; install Headwater with `cargo xtask install`, on a machine \
                   that has the MPIs' headers";
    match preload::installed() {
        Ok((library, variants)) if !variants.is_empty() => match trial::preload(&library) {
            Ok(()) => Check::ok(MPI_IO, format!("{}; {PROGRAM} loads {}", variants.join(", "), library.display())),
            Err(why) => {
                Check::warning(MPI_IO, why, "`headwater run --io` does nothing here; build it for this machine")
            }
        },
        Ok((library, _)) => Check::warning(MPI_IO, format!("{} has no part for any MPI", library.display()), without),
        Err(error) => Check::warning(MPI_IO, format!("{error:#}"), without),
    }
}

/// Returns a program's standard error when this library audits it; `None` if the program fails.
fn complaint(library: &OsStr) -> Option<String> {
    let output = trial::load(&["LD_AUDIT"], library).ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loader_that_audits_complains_about_what_is_not_there() {
        assert!(complaint(NO_LIBRARY.as_ref()).unwrap().contains(NO_LIBRARY));
    }
}
