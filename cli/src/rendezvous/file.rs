//! The job file: what a job's nodes are told before they can be spoken to, the session's key among it. It
//! lies where all nodes see it, and only its user may read it.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use headwater_abi::wire;
use headwater_daemon::{Fabric, Policy, Preload, SessionId, SessionKey};
use headwater_fuse::init::Opening;
use serde::{Deserialize, Serialize};

use super::ports::Ports;
use crate::io::options::IoOptions;
use crate::session::directory::{is_session_name, name_of};
use crate::via::{Program, Via};

/// The longest job file, in bytes.
const BYTES_MAX: u64 = 64 << 20;

/// What the nodes are told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// The protocol between daemons; nodes of another version take no part.
    pub version: u32,
    /// The session.
    pub session: SessionId,
    /// What its daemons know of each other.
    pub key: SessionKey,
    /// Where the front end listens.
    pub front: Vec<SocketAddr>,
    /// What the nodes serve.
    pub service: Service,
}

/// What a node serves, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Service {
    /// The scope.
    pub scope: Vec<(bool, String)>,
    /// What is known of the program.
    pub program: Program,
    /// The mechanism that the user asks for.
    pub via: Via,
    /// Who gets what.
    pub policy: Policy,
    /// Where the store is to be.
    pub store: Option<PathBuf>,
    /// The most that it holds, in bytes.
    pub store_bytes_max: Option<u64>,
    /// Memory domains have copies of their own.
    pub numa_replicas: bool,
    /// Files of more bytes travel in blocks.
    pub whole_file_bytes_max: u64,
    /// How files are opened in a mount.
    pub opening: Option<Opening>,
    /// What is fetched before processes ask.
    pub preload: Option<Preload>,
    /// Where daemons listen, if not anywhere.
    pub ports: Option<Ports>,
    /// Daemons' links go over libfabric where that can be.
    pub fabric: Option<Fabric>,
    /// What becomes of the program's I/O, if anything does.
    #[serde(default)]
    pub io: Option<IoOptions>,
    /// Whether nodes tell what they do.
    pub verbose: bool,
}

/// A job file that goes when this is dropped.
#[derive(Debug)]
pub struct JobFile(PathBuf);

impl Job {
    /// Writes the file into `directory`, or the usual one.
    pub fn write(&self, directory: Option<&Path>) -> Result<JobFile> {
        let directory = match directory {
            Some(directory) => directory.to_owned(),
            None => usual_directory()?,
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .with_context(|| format!("{} can't be made. Name another directory with --job-dir", directory.display()))?;
        let path = fs::canonicalize(&directory)?.join(name_of(self.session));
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.with_context(|| {
            format!("{} can't be made. Name a directory that all nodes see with --job-dir", path.display())
        })?;
        let written = JobFile(path);
        file.write_all(serde_json::to_string(self)?.as_bytes())?;
        // What other nodes see of it is complete.
        file.sync_all()?;
        Ok(written)
    }

    /// Reads the file, if it is this user's alone and of this version; `-` is the first line of standard input.
    pub fn read(path: &Path) -> Result<Job> {
        if path == Path::new("-") {
            let mut line = String::new();
            std::io::stdin().lock().take(BYTES_MAX).read_line(&mut line)?;
            return Job::parse(line.as_bytes(), path);
        }
        let file = File::open(path).with_context(|| {
            format!(
                "{} can't be opened on this node. Name a directory that all nodes see with --job-dir",
                path.display()
            )
        })?;
        let metadata = file.metadata()?;
        let is_private = metadata.mode() & 0o077 == 0 && metadata.uid() == rustix::process::geteuid().as_raw();
        ensure!(is_private, "{} can be read or changed by others", path.display());
        Job::parse(file, path)
    }

    /// Reads the file of a session with this name, in the directory that the user names or the usual one.
    pub fn of_session(name: &str, directory: Option<&Path>) -> Result<(PathBuf, Job)> {
        ensure!(is_session_name(name.as_ref()), "{name} is no session. `headwater start` prints its name");
        let path = directory.map_or_else(usual_directory, |directory| Ok(directory.to_owned()))?.join(name);
        ensure!(path.exists(), "session {name} has ended, or its file is not {}: see --job-dir", path.display());
        let path = path.canonicalize()?;
        let job = Job::read(&path)?;
        Ok((path, job))
    }

    /// The job that `from` tells of; `path` is what it is called in messages.
    pub fn parse(from: impl Read, path: &Path) -> Result<Job> {
        let mut text = String::new();
        from.take(BYTES_MAX).read_to_string(&mut text)?;
        let version = serde_json::from_str::<Version>(&text).map(|version| version.version);
        match version {
            Ok(version) if version == wire::VERSION => {
                serde_json::from_str(&text).with_context(|| format!("{} is no job file", path.display()))
            }
            Ok(version) => bail!("the job was started by another version of headwater ({version})"),
            Err(_) => bail!("{} is no job file", path.display()),
        }
    }
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl JobFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for JobFile {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes a job file, and what lies beside it for the same job.
pub fn remove(job: &Path) {
    let _ = fs::remove_file(job);
    let (Some(directory), Some(name)) = (job.parent(), job.file_name()) else { return };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| Path::new(&entry.file_name()).file_stem() == Some(name)) {
        let _ = fs::remove_file(entry.path());
    }
}

fn usual_directory() -> Result<PathBuf> {
    let home = env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.context("HOME is not set. Name a directory that all nodes see with --job-dir")?;
    Ok(PathBuf::from(home).join(".headwater"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn job() -> Job {
        let service = Service {
            scope: vec![(true, "/sw".into())],
            program: Program::default(),
            via: Via::Auto,
            policy: Policy::Adaptive,
            store: None,
            store_bytes_max: None,
            numa_replicas: false,
            whole_file_bytes_max: 1 << 20,
            opening: None,
            preload: None,
            ports: None,
            fabric: None,
            io: None,
            verbose: false,
        };
        let front = vec!["127.0.0.1:1".parse().unwrap()];
        Job { version: wire::VERSION, session: SessionId(7 << 64), key: SessionKey([7; 32]), front, service }
    }

    #[test]
    fn a_job_file_is_its_users_alone_and_goes() {
        let directory = tempfile::tempdir().unwrap();
        let file = job().write(Some(&directory.path().join("new"))).unwrap();
        assert!(file.path().ends_with("new/0000000000000007"));
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);
        let read = Job::read(file.path()).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), serde_json::to_string(&job()).unwrap());
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Job::read(file.path()).unwrap_err().to_string().contains("by others"));
        let path = file.path().to_owned();
        let (beside, anothers) = (path.with_extension("1-0"), path.with_file_name("1000000000000007.1-0"));
        [&beside, &anothers].iter().for_each(|path| fs::write(path, "").unwrap());
        drop(file);
        assert_eq!([&beside, &anothers].map(|path| path.exists()), [false, true]);
        assert!(!path.exists() && Job::read(&path).unwrap_err().to_string().contains("--job-dir"));
    }

    #[test]
    fn another_version_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = Job { version: wire::VERSION + 1, ..job() }.write(Some(directory.path())).unwrap();
        assert!(Job::read(file.path()).unwrap_err().to_string().contains("another version"));
        fs::write(file.path(), "nonsense").unwrap();
        assert!(Job::read(file.path()).unwrap_err().to_string().contains("no job file"));
    }
}
