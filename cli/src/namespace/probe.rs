//! Probes what the kernel allows, by a trial in a process of its own.

use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use headwater_fuse::{Device, Operation, Request};
use headwater_supervisor::namespace::Task;
use serde::{Deserialize, Serialize};

use super::make;
use crate::self_exec;

/// A directory that every system has. The mount vanishes with its namespace.
const ANYWHERE: &str = "/proc";
/// The kernel's default size of a READ, in bytes.
const READ_BYTES_MAX: u32 = 128 << 10;

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// Namespaces with a FUSE file system can be made.
    Usable {
        /// Whether they need a user namespace.
        needs_user_namespace: bool,
        /// The features of the kernel's FUSE.
        features: Features,
    },
    /// They can't be made; the reason and the next step.
    Unusable(String),
}

/// The features in the kernel's INIT request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// The protocol's minor version.
    pub minor: u32,
    /// The bits of [`flag`](headwater_fuse::init::flag).
    pub flags: u64,
}

/// Returns the result of a probe that succeeds, for callers that try the mount itself.
pub fn presumed() -> Found {
    Found::Usable { needs_user_namespace: !make::may_mount(), features: Features { minor: 0, flags: 0 } }
}

/// Makes namespaces with a FUSE file system as a trial, in some milliseconds.
pub fn probe() -> Found {
    let run = || -> Result<Found> {
        let mut command = self_exec::command();
        command.args(["namespace", "--probe"]).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().context("headwater can't start itself")?;
        ensure!(!output.stdout.is_empty(), "the trial ended with {}", output.status);
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    run().unwrap_or_else(|e| Found::Unusable(format!("{e:#}")))
}

/// `headwater namespace --probe`: the trial itself.
pub fn answer() -> Found {
    let attempt = || -> Result<Found> {
        let needs_user_namespace = !make::may_mount();
        let task = Task {
            view: ANYWHERE.into(),
            source: "headwater".into(),
            has_user_namespace: needs_user_namespace,
            allows_others: true,
            read_bytes_max: READ_BYTES_MAX,
            scope: Vec::new(),
        };
        let made = make::make(&task)?;
        Ok(Found::Usable { needs_user_namespace, features: offered(&made.device)? })
    };
    attempt().unwrap_or_else(|e| Found::Unusable(format!("{e:#}")))
}

/// Reads the kernel's INIT request, and leaves it unanswered.
fn offered(device: &Device) -> Result<Features> {
    let mut buffer = vec![0; Device::request_bytes_max(0)];
    let bytes = device.read(&mut buffer).context("the FUSE connection does not begin")?;
    match Request::decode(&buffer[..bytes]).map(|request| request.operation) {
        Ok(Operation::Init(init)) => Ok(Features { minor: init.minor, flags: init.flags }),
        _ => bail!("the FUSE connection begins with another request than INIT"),
    }
}
