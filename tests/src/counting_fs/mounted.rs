//! The side of the tests: starts `counting-fs` and sends it requests.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The kernel's caching.
#[derive(Clone, Copy, Debug)]
pub struct Caching {
    /// How long a name that exists, and attributes, may be believed, in milliseconds. Absent names
    /// are never believed.
    pub ttl_ms: u64,
    /// Whether a file's pages stay when it is opened again.
    pub pages: bool,
}

impl Caching {
    /// Nothing: every use queries the server again.
    pub const NONE: Caching = Caching { ttl_ms: 0, pages: false };
    /// As a network file system with its usual validity of three seconds.
    pub const USUAL: Caching = Caching { ttl_ms: 3000, pages: true };
}

/// A source directory mounted some times; dropped, it is unmounted.
pub struct Mounted {
    dir: TempDir,
    process: Child,
    connection: Option<BufReader<UnixStream>>,
    mounts: Vec<PathBuf>,
}

impl Mounted {
    /// Mounts `source` `count` times. `Err` has the reason why that is impossible here.
    pub fn new(source: &Path, count: usize, caching: Caching) -> Result<Mounted, String> {
        fs::File::options().read(true).write(true).open("/dev/fuse").map_err(|e| format!("/dev/fuse: {e}"))?;
        let dir = crate::scratch("fs");
        let mounts: Vec<PathBuf> = (0..count).map(|n| dir.path().join(n.to_string())).collect();
        mounts.iter().for_each(|mount| fs::create_dir(mount).expect("a fresh directory"));
        let control = dir.path().join("control");
        let mut command = Command::new(crate::sibling_binary("counting-fs"));
        command.arg(source).arg(&control).arg(caching.ttl_ms.to_string()).arg(caching.pages.to_string());
        let mut process = command
            .args(&mounts)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C ends its client; it then unmounts.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("counting-fs: {e}"))?;
        match connect(&control, &mut process) {
            Ok(connection) => Ok(Mounted { dir, process, connection: Some(BufReader::new(connection)), mounts }),
            Err(_) => {
                let output = process.wait_with_output().map_err(|e| e.to_string())?;
                Err(format!("counting-fs: {}", String::from_utf8_lossy(&output.stderr).trim()))
            }
        }
    }

    /// The first mount.
    pub fn path(&self) -> &Path {
        &self.mounts[0]
    }

    /// All mounts.
    pub fn mounts(&self) -> &[PathBuf] {
        &self.mounts
    }

    /// A directory beside the mounts, for a test's own files.
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    /// The counts since the last reset.
    pub fn counts(&mut self) -> Value {
        serde_json::from_str(&self.request("counts")).expect("counting-fs answers with JSON")
    }

    /// Starts counting anew.
    pub fn reset(&mut self) {
        self.command("reset");
    }

    /// One server for everything, this many operations a second; 0: as fast as it can.
    pub fn set_rate(&mut self, per_second: u64) {
        self.command(&format!("rate {per_second}"));
    }

    /// One server for everything, so many bytes of content a second; 0: as fast as it can.
    pub fn set_bandwidth(&mut self, bytes_per_second: u64) {
        self.command(&format!("bandwidth {bytes_per_second}"));
    }

    /// Operations of this kind take this much longer.
    pub fn set_delay(&mut self, kind: &str, delay: Duration) {
        self.command(&format!("delay {kind} {}", delay.as_nanos()));
    }

    fn command(&mut self, line: &str) {
        assert_eq!(self.request(line), "ok", "counting-fs did not understand: {line}");
    }

    fn request(&mut self, line: &str) -> String {
        let connection = self.connection.as_mut().expect("open until dropped");
        writeln!(connection.get_mut(), "{line}").expect("counting-fs runs");
        let mut reply = String::new();
        connection.read_line(&mut reply).expect("counting-fs runs");
        reply.trim_end().to_string()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.connection = None;
        let deadline = Instant::now() + Duration::from_secs(5);
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
        for mount in &self.mounts {
            let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

fn connect(control: &Path, process: &mut Child) -> io::Result<UnixStream> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match UnixStream::connect(control) {
            Ok(connection) => return Ok(connection),
            Err(error) if Instant::now() > deadline || process.try_wait()?.is_some() => {
                let _ = process.kill();
                return Err(error);
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
