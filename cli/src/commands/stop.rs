//! `headwater stop`: ends a session of several launches.

use std::io;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::message::{log, show};
use crate::options::StopOptions;
use crate::rendezvous::client::FrontClient;
use crate::rendezvous::file::{self, Job};
use crate::rendezvous::messages::{FromNode, ToNode};

/// Timeout of a session's end.
const STOP_MAX: Duration = Duration::from_secs(15);

/// Ends a session, and prints what it did.
pub fn stop(options: &StopOptions) -> Result<u8> {
    let (path, job) = Job::of_session(&options.session, options.job_dir.as_deref())?;
    let asked = FrontClient::new(&job).and_then(|mut client| client.ask(&FromNode::Stop, STOP_MAX));
    match asked {
        Ok(ToNode::Ended(summary)) => show(io::stdout(), summary),
        Ok(_) => log("the session has ended"),
        Err(error) => {
            // Without the front end, the nodes end by themselves.
            file::remove(&path);
            bail!("the front end of session {} can't be reached ({error:#}); its file is removed", options.session);
        }
    }
    Ok(0)
}
