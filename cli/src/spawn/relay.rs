//! `headwater spawn --relay`: a launcher whose own fork and exec go through zygotes.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Result;

use crate::installed;
use crate::io::trial;
use crate::message::log;

/// The library that has a launcher's processes forked by zygotes.
const LIBRARY: &str = "libheadwater-relay.so";
const PRELOAD: &str = "LD_PRELOAD";
/// The exit statuses of shells.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Executes the launcher; returns an exit status if that fails. If the library is missing, the launcher runs without
/// it.
pub fn relay(launcher: &[OsString]) -> Result<u8> {
    let (program, arguments) = launcher.split_first().expect("clap requires a program");
    let mut command = Command::new(program);
    let library = installed::find(LIBRARY);
    match library.and_then(|library| trial::preload(&library).map(|()| library).map_err(anyhow::Error::msg)) {
        Ok(library) => {
            command.env(PRELOAD, before(library.as_os_str(), std::env::var_os(PRELOAD)));
        }
        Err(reason) => log(format!("{} starts without a relay: {reason:#}", program.display())),
    }
    let error = command.args(arguments).exec();
    log(format!("{}: {error}", program.display()));
    Ok(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// Returns the value of LD_PRELOAD: the library before those of the user.
fn before(library: &OsStr, others: Option<OsString>) -> OsString {
    let mut list = library.to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preloaded_stays() {
        let check = |others: Option<&str>, expected: &str| {
            assert_eq!(before(OsStr::new("/l/r.so"), others.map(OsString::from)), OsString::from(expected));
        };
        check(None, "/l/r.so");
        check(Some(""), "/l/r.so");
        check(Some("/a.so /b.so"), "/l/r.so:/a.so /b.so");
    }
}
