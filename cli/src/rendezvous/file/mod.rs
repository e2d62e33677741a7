//! The job file: what a job's nodes need before they can connect, including the session's key. It lies in a
//! directory that all nodes see, and only its user may read it.

pub mod key;

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use headwater_abi::wire;
use headwater_daemon::{CacheOptions, Fabric, Kinds, LinkProtection, Policy, Preload, SessionId};
use headwater_fuse::init::Opening;
use serde::{Deserialize, Serialize};

use self::key::JobKey;
use super::interfaces::InterfaceName;
use super::ports::Ports;
use crate::io::options::IoOptions;
use crate::session::directory::{is_session_name, name_of};
use crate::session::records::Records;
use crate::via::{Program, Via};

/// The longest job file, in bytes.
const BYTES_MAX: u64 = 64 << 20;

/// The contents of a job file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// The version of the protocol between daemons. Nodes of another version don't take part.
    pub version: u32,
    /// Headwater's version, for people.
    pub release: String,
    /// The session.
    pub session: SessionId,
    /// The key by which its daemons authenticate each other.
    pub key: JobKey,
    /// Where the front end listens.
    pub front: Vec<SocketAddr>,
    /// What nodes serve, and how.
    pub service: Service,
}

/// What a node serves, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Service {
    /// The scope.
    pub scope: Vec<(bool, String)>,
    /// The number of nodes, where the launcher doesn't tell it to processes.
    #[serde(default)]
    pub nodes: Option<u32>,
    /// Properties of the program.
    pub program: Program,
    /// The mechanism that the user chose.
    pub via: Via,
    /// The push policy.
    pub policy: Policy,
    /// The directory of the store.
    pub store: Option<PathBuf>,
    /// The store's limit, in bytes.
    pub store_bytes_max: Option<u64>,
    /// Whether each memory domain has its own copies.
    pub numa_replicas: bool,
    /// Of which files, by patterns; all if there are none.
    #[serde(default)]
    pub numa_replicas_for: Vec<String>,
    /// Files of more bytes travel in blocks.
    pub whole_file_bytes_max: u64,
    /// Larger files are read from their source, if there is a limit.
    #[serde(default)]
    pub stored_file_bytes_max: Option<u64>,
    /// Kinds of files of which content is stored.
    #[serde(default)]
    pub serve: Kinds,
    /// Whether what audited processes start in other processes is served.
    pub follows_fork: bool,
    /// Where content is kept for later sessions.
    #[serde(default)]
    pub cache: Option<CacheOptions>,
    /// The opening mode of a mount.
    pub opening: Opening,
    /// Files to fetch before processes request them.
    pub preload: Option<Preload>,
    /// Which nodes report what their processes use.
    #[serde(default)]
    pub records: Records,
    /// Whether nodes record what they do.
    #[serde(default)]
    pub reports: bool,
    /// Ports at which daemons listen, if they are restricted.
    pub ports: Option<Ports>,
    /// The interfaces that carry the links between daemons, if the user named some.
    #[serde(default)]
    pub interfaces: Vec<InterfaceName>,
    /// libfabric for the links between daemons, where it works.
    pub fabric: Option<Fabric>,
    /// How these links are protected.
    #[serde(default)]
    pub link_protection: LinkProtection,
    /// Options of the I/O library, if it is used.
    #[serde(default)]
    pub io: Option<IoOptions>,
    /// Whether nodes report each step.
    pub verbose: bool,
}

/// A job file that is removed when this is dropped.
#[derive(Debug)]
pub struct JobFile(PathBuf);

impl Job {
    /// A job of this version.
    pub fn new(session: SessionId, key: JobKey, front: Vec<SocketAddr>, service: Service) -> Job {
        Job { version: wire::VERSION, release: wire::RELEASE.into(), session, key, front, service }
    }

    /// Writes the file into `directory`, or into the default directory.
    pub fn write(&self, directory: Option<&Path>) -> Result<JobFile> {
        let directory = directory_or_default(directory)?;
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
        // Other nodes must see the complete file.
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

    /// Reads the file of the session `name` in `directory`, or in the default directory.
    pub fn of_session(name: &str, directory: Option<&Path>) -> Result<(PathBuf, Job)> {
        ensure!(is_session_name(name.as_ref()), "{name} is no session. `headwater start` prints its name");
        let path = directory_or_default(directory)?.join(name);
        ensure!(path.exists(), "session {name} has ended, or its file is not {}: see --job-dir", path.display());
        let path = path.canonicalize()?;
        let job = Job::read(&path)?;
        Ok((path, job))
    }

    /// Parses a job; `path` is its name in messages.
    pub fn parse(from: impl Read, path: &Path) -> Result<Job> {
        let mut text = String::new();
        from.take(BYTES_MAX).read_to_string(&mut text)?;
        let version = serde_json::from_str::<Version>(&text);
        match version {
            Ok(Version { version: wire::VERSION, .. }) => {
                serde_json::from_str(&text).with_context(|| format!("{} is no job file", path.display()))
            }
            Ok(Version { version, release }) => bail!(
                "the job was started by headwater {release} (wire version {version}), and this node has {} ({}). Install \
                 one of them on all nodes",
                wire::RELEASE,
                wire::VERSION
            ),
            Err(_) => bail!("{} is no job file", path.display()),
        }
    }
}

#[derive(Deserialize)]
struct Version {
    version: u32,
    release: String,
}

impl JobFile {
    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for JobFile {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes a job file, and further files of the same job beside it.
pub fn remove(job: &Path) {
    let _ = fs::remove_file(job);
    let (Some(directory), Some(name)) = (job.parent(), job.file_name()) else { return };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| Path::new(&entry.file_name()).file_stem() == Some(name)) {
        let _ = fs::remove_file(entry.path());
    }
}

/// Returns the directory of job files: the user's, or the default one.
pub fn directory_or_default(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let home = env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.context("HOME is not set. Name a directory that all nodes see with --job-dir")?;
    Ok(PathBuf::from(home).join(".headwater"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use headwater_daemon::SessionKey;

    use super::*;

    fn job() -> Job {
        let service = Service {
            scope: vec![(true, "/sw".into())],
            nodes: None,
            program: Program::default(),
            via: Via::Auto,
            policy: Policy::Adaptive,
            store: None,
            store_bytes_max: None,
            numa_replicas: false,
            numa_replicas_for: Vec::new(),
            whole_file_bytes_max: 1 << 20,
            stored_file_bytes_max: None,
            serve: Kinds::all(),
            follows_fork: true,
            cache: None,
            opening: Opening::None,
            preload: None,
            records: Records::None,
            reports: false,
            ports: None,
            interfaces: Vec::new(),
            fabric: None,
            link_protection: LinkProtection::Authenticate,
            io: None,
            verbose: false,
        };
        let front = vec!["127.0.0.1:1".parse().unwrap()];
        Job::new(SessionId(7 << 64), JobKey::Open(SessionKey([7; 32])), front, service)
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
        let other = Job { version: wire::VERSION + 1, release: "9.9".into(), ..job() };
        let file = other.write(Some(directory.path())).unwrap();
        let error = Job::read(file.path()).unwrap_err().to_string();
        assert!(error.contains("by headwater 9.9 (") && error.contains(&format!("has {} (", wire::RELEASE)), "{error}");
        fs::write(file.path(), "nonsense").unwrap();
        assert!(Job::read(file.path()).unwrap_err().to_string().contains("no job file"));
    }

    #[test]
    fn fuzzing_begins_with_what_is_read() {
        for seed in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/job_file")).unwrap() {
            let (path, bytes) = seed.map(|seed| (seed.path(), std::fs::read(seed.path()).unwrap())).unwrap();
            Job::parse(&*bytes, &path).unwrap();
        }
    }
}
