//! `headwater start`: begins a session of several launches.

use std::env;
use std::io::{self, Read};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};

use crate::message::show;
use crate::options::run::StartOptions;
use crate::rendezvous::persistent::{FAILED, run_session};
use crate::seal::options::SEALED;
use crate::self_exec;

/// Starts a session, and prints its name.
pub fn start(options: &StartOptions) -> Result<u8> {
    let sealed = env::var_os(SEALED).filter(|seal| !seal.is_empty());
    ensure!(sealed.is_none(), "a session of several launches can't be sealed: unset {SEALED}, or use `headwater run`");
    if options.stays {
        return run_session(options);
    }
    let mut arguments = env::args_os().skip(1);
    let mut command = self_exec::command();
    command.args(arguments.next()).arg("--stays").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = command.spawn().context("the session's process can't be started")?;
    let mut output_text = String::new();
    if let Some(mut output) = process.stdout.take() {
        output.read_to_string(&mut output_text)?;
    }
    if let Some(why) = output_text.strip_prefix(FAILED) {
        bail!("{}", why.trim_end());
    }
    ensure!(!output_text.is_empty(), "the session's process has ended at once");
    show(io::stdout(), output_text);
    Ok(0)
}
