//! The session's key on its way to a job's nodes: open, or in a credential of munge, which only processes of this user
//! on machines with the same key of munge can decode.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use headwater_daemon::{SessionId, SessionKey};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

/// `unmunge` decodes what has expired or was encoded by a clock that is ahead, and what was decoded before, and says so
/// by these statuses. The key serves as long as its session.
const DECODED: [i32; 4] = [0, 15, 16, 17];

/// How a job's file, or the variable in its place, contains the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum KeyProtection {
    /// As it is.
    #[default]
    None,
    /// In a credential of munge.
    Munge,
}

/// A key in a job's file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum JobKey {
    /// The key.
    Open(SessionKey),
    /// A credential that has the session and its key.
    Credential { munge: String },
}

impl JobKey {
    /// Protects a session's key.
    ///
    /// # Errors
    /// munge is not installed or not running.
    pub fn new(session: SessionId, key: SessionKey, protection: KeyProtection) -> Result<JobKey> {
        if protection == KeyProtection::None {
            return Ok(JobKey::Open(key));
        }
        let payload = format!("{} {}", String::from(session), String::from(key));
        let user = format!("--restrict-uid={}", geteuid().as_raw());
        let encoded = run("munge", &[&user], &payload)?;
        ensure!(encoded.status.success(), "the session's key can't be protected. {}", complaint(&encoded));
        Ok(JobKey::Credential { munge: String::from_utf8(encoded.stdout)?.trim().to_owned() })
    }

    /// Returns the key of this session.
    ///
    /// # Errors
    /// The credential can't be decoded here, is another session's, or another user made it.
    pub fn decoded(&self, session: SessionId) -> Result<SessionKey> {
        let credential = match self {
            JobKey::Open(key) => return Ok(key.clone()),
            JobKey::Credential { munge } => munge,
        };
        let decoded = run("unmunge", &["--numeric", "--keys=UID"], credential)?;
        let is_decoded = decoded.status.code().is_some_and(|status| DECODED.contains(&status));
        ensure!(is_decoded, "the session's key can't be decoded. {}", complaint(&decoded));
        let text = String::from_utf8(decoded.stdout)?;
        let Some((user, of, key)) = parts(&text) else { bail!("munge's credential is not a session's key") };
        ensure!(user == geteuid().as_raw(), "munge's credential was made by user {user}, so its key is not used");
        ensure!(of == String::from(session), "munge's credential is that of another session");
        Ok(SessionKey::try_from(key.to_owned())?)
    }
}

/// Parses the output of `unmunge`: metadata, an empty line, and the payload. Returns the user, session and key.
fn parts(text: &str) -> Option<(u32, &str, &str)> {
    let (metadata, payload) = text.split_once("\n\n")?;
    let (session, key) = payload.split_once(' ')?;
    Some((metadata.strip_prefix("UID:")?.trim().parse().ok()?, session, key))
}

fn run(program: &str, arguments: &[&str], input: &str) -> Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("`{program}` can't be started. Install munge"))?;
    // What ended without reading it says why.
    let _ = child.stdin.take().context("its standard input is a pipe")?.write_all(input.as_bytes());
    Ok(child.wait_with_output()?)
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(7);

    #[test]
    fn an_open_key_is_its_digits() {
        let key = JobKey::new(SESSION, SessionKey([7; 32]), KeyProtection::None).unwrap();
        assert_eq!(serde_json::to_string(&key).unwrap(), format!("{:?}", "07".repeat(32)));
        assert_eq!(key.decoded(SESSION).unwrap(), SessionKey([7; 32]));
    }

    #[test]
    fn a_credential_is_no_open_key() {
        let key: JobKey = serde_json::from_str(r#"{"munge":"MUNGE:AwQF:"}"#).unwrap();
        assert!(matches!(&key, JobKey::Credential { munge } if munge == "MUNGE:AwQF:"));
        assert!(key.decoded(SESSION).is_err());
    }

    #[test]
    fn the_output_of_unmunge_is_parsed() {
        assert_eq!(parts("UID:             12\n\n0a 0b"), Some((12, "0a", "0b")));
        for text in ["", "UID: 12\n0a 0b", "UID: root\n\n0a 0b", "UID: 12\n\n0a", "GID: 12\n\n0a 0b"] {
            assert_eq!(parts(text), None, "{text}");
        }
    }
}
