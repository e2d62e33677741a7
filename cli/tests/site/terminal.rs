//! A terminal of the test's own.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Opens a terminal; returns its two ends.
pub fn terminal() -> (File, File) {
    let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(Path::new(name.to_str().unwrap())).unwrap();
    (File::from(master), slave)
}

/// Returns the command in a new session with the terminal `slave`.
pub fn on_terminal(headwater: &Command, before: &[&str], slave: File) -> Command {
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).args(before).arg(headwater.get_program()).args(headwater.get_args());
    for (name, value) in headwater.get_envs().filter_map(|(n, v)| Some((n, v?))) {
        command.env(name, value);
    }
    command.stdin(slave);
    command
}
