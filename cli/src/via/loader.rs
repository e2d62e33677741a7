//! What the C library's loader does to audited programs, by trial.

use std::os::unix::process::ExitStatusExt;

use crate::installed;
use crate::io::trial;

/// A library that audits the program that it is loaded into, and calls dlmopen there (`shim/trial`).
const TRIAL: &str = "headwater/loader-trial.so";

/// Returns how this system's loader harms programs that a library audits, if so. A trial that can't be run counts as
/// harmless.
pub fn fault() -> Option<&'static str> {
    let library = installed::find(TRIAL).ok()?;
    let output = trial::load(&["LD_AUDIT", "LD_PRELOAD"], library.as_os_str()).ok()?;
    output.status.signal()?;
    Some("this system's loader ends audited programs that call dlmopen, whatever audits them (glibc before 2.35)")
}
