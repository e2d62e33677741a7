//! `asker SOCKET`: requests from the daemon that listens there what standard input names; see
//! [`headwater_tests::harness::nodes`].

use std::process::ExitCode;

use headwater_tests::harness::nodes::serve_asks;

fn main() -> ExitCode {
    let Some(socket) = std::env::args_os().nth(1) else {
        eprintln!("usage: asker SOCKET");
        return ExitCode::from(2);
    };
    match serve_asks(socket.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("asker: {error}");
            ExitCode::FAILURE
        }
    }
}
