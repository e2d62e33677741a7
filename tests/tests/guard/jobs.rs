//! Three jobs on a RAM disk of an own mount namespace: one hammers, one reads a big file, one opens a few files.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use headwater_tests::harness::{has_program, headwater_binary, skipped};
use headwater_tests::needs_root;

/// The promise: a storm is named within this time.
const NAMED_MAX: Duration = Duration::from_secs(10);
/// How long anything else may take.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Opens 500 files in turn, without end; the second argument is a pause after each, in seconds.
const OPENS: &str = "\
import os, sys, time
names = [os.path.join(sys.argv[1], 'm%d' % i) for i in range(500)]
while True:
    for name in names:
        os.close(os.open(name, os.O_RDONLY))
        time.sleep(float(sys.argv[2]))
";
/// Reads a file again and again, without opening it again.
const READS: &str = "\
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
while True:
    for at in range(0, 1 << 24, 1 << 16):
        os.pread(file, 1 << 16, at)
";

/// A mount namespace with a RAM disk, as long as its process lives.
struct Place {
    holder: Child,
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Option<Place> {
        let directory = tempfile::tempdir().expect("there is a temporary directory");
        let disk = directory.path().join("sw");
        let script = format!(
            "mount -t tmpfs guarded {0} && mkdir {0}/conda {0}/few && truncate -s 16M {0}/big && \
             for i in $(seq 0 499); do : >{0}/conda/m$i; : >{0}/few/m$i; done && echo ready && exec sleep 600",
            disk.display()
        );
        fs::create_dir(&disk).expect("an own directory");
        let mut unshare = Command::new("unshare");
        let unshare = unshare.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        let mut holder = unshare.stdout(Stdio::piped()).spawn().expect("unshare is there");
        let mut line = String::new();
        let output = holder.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("it can be read");
        let place = Place { holder, directory };
        (line == "ready\n").then_some(place)
    }

    fn disk(&self) -> PathBuf {
        self.directory.path().join("sw")
    }

    /// A command that runs there.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id())).arg("--").arg(program);
        command
    }

    /// A job's process.
    fn job(&self, number: &str, program: &str, arguments: &[&Path]) -> Running {
        let mut command = self.command("python3");
        command.arg("-c").arg(program).args(arguments).env("SLURM_JOB_ID", number);
        Running(command.spawn().expect("nsenter is there"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A process that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lines of an output, as they come.
fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    lines
}

/// The next line that has all of these.
fn await_line(lines: &Receiver<String>, has: &[&str]) -> String {
    let deadline = Instant::now() + TIME_MAX;
    let mut seen = Vec::new();
    while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        if has.iter().all(|part| line.contains(part)) {
            return line;
        }
        seen.push(line);
    }
    panic!("no line has {has:?}: {seen:#?}");
}

fn page(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it is served");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("it is read");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it is text");
    page
}

/// A program that writes what it gets to a file.
fn hook(place: &Place, seen: &Path) -> PathBuf {
    let hook = place.directory.path().join("hook");
    let text = "#!/bin/sh\nenv | grep ^HEADWATER_FINDING_ >>";
    fs::write(&hook, format!("{text}{}\n", seen.display())).expect("an own directory");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("an own file");
    hook
}

#[test]
fn the_job_that_hammers_is_named_within_ten_seconds_and_no_other() {
    needs_root!();
    if !["nsenter", "unshare", "python3"].iter().all(|program| has_program(program)) {
        return skipped("nsenter, unshare or python3 is not installed");
    }
    let Some(place) = Place::new() else { return skipped("no RAM disk can be mounted") };
    let disk = place.disk();
    let (seen, socket) = (place.directory.path().join("seen"), place.directory.path().join("notify"));
    let status = UnixDatagram::bind(&socket).expect("an own directory");
    status.set_read_timeout(Some(TIME_MAX)).expect("it is a socket");
    let mut guard = place.command(headwater_binary());
    guard.args(["guard", "--json", "--listen", "7464", "--mount"]).arg(&disk).arg("--command").arg(hook(&place, &seen));
    let guard = guard.env("NOTIFY_SOCKET", &socket).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut guard = Running(guard.spawn().expect("nsenter is there"));
    let findings = lines(guard.0.stdout.take().expect("a pipe"));
    let messages = lines(guard.0.stderr.take().expect("a pipe"));
    let mut bytes = [0; 1024];
    let length = status.recv(&mut bytes).expect("the guard is ready");
    let ready = String::from_utf8_lossy(&bytes[..length]).into_owned();
    assert!(ready.starts_with("READY=1\nSTATUS=watches ") && ready.ends_with("no job is over the limit"), "{ready}");

    let few = place.job("7003", OPENS, &[&disk.join("few"), Path::new("0.02")]);
    let reading = place.job("7002", READS, &[&disk.join("big")]);
    let began = Instant::now();
    let storm = place.job("7001", OPENS, &[&disk.join("conda"), Path::new("0")]);
    let second = place.job("7001", OPENS, &[&disk.join("conda"), Path::new("0")]);
    let found = await_line(&findings, &["\"began\""]);
    assert!(began.elapsed() < NAMED_MAX, "{:?}", began.elapsed());
    println!("named after {:.1} s", began.elapsed().as_secs_f64());
    for part in [r#""job":{"kind":"slurm","id":"7001"}"#, r#""uid":0"#, r#""counted":"opens""#, "/conda\"]"] {
        assert!(found.contains(part), "no {part} in {found}");
    }
    let line = await_line(&messages, &["warning: Slurm job 7001 (user root, python3", "`headwater run`"]);
    assert!(line.contains("most in ") && !line.contains("7002"), "{line}");
    let length = status.recv(&mut bytes).expect("the status has changed");
    assert!(String::from_utf8_lossy(&bytes[..length]).ends_with("over the limit: 1"));
    let page = page(7464);
    assert!(
        page.contains(r#"headwater_guard_job_operations_per_second{mount=""#) && page.contains(r#"job="7001""#),
        "{page}"
    );
    assert!(
        !page.contains("7002") && !page.contains("7003") && page.contains("headwater_guard_findings_total 1"),
        "{page}"
    );

    drop((storm, second));
    let ended = await_line(&findings, &["\"ended\""]);
    assert!(ended.contains("7001"), "{ended}");
    drop((few, reading));
    let passed = fs::read_to_string(&seen).expect("the hook has run");
    assert!(passed.contains("HEADWATER_FINDING_JOB_ID=7001") && !passed.contains("7002"), "{passed}");

    // The guard does not keep the file system mounted.
    let output = place.command("umount").arg(&disk).output().expect("nsenter is there");
    assert!(output.status.success(), "{output:?}");
    await_line(&messages, &["is not mounted any more"]);
    rustix::process::kill_process(rustix::process::Pid::from_child(&guard.0), rustix::process::Signal::TERM)
        .expect("it is this process's");
    assert!(guard.0.wait().expect("it is this process's").success());
    assert!(findings.try_iter().next().is_none());
}

/// A control group with a name as Slurm gives it. It is removed when it is dropped.
struct SlurmGroup(Vec<PathBuf>);

impl SlurmGroup {
    fn new(job: &str) -> Option<SlurmGroup> {
        let root = Path::new("/sys/fs/cgroup");
        let root = if root.join("cgroup.controllers").exists() { root.to_owned() } else { root.join("memory") };
        let outer = root.join(format!("slurm-headwater-{}", std::process::id()));
        let inner = outer.join(job);
        fs::create_dir_all(&inner).ok()?;
        Some(SlurmGroup(vec![inner, outer]))
    }
}

impl Drop for SlurmGroup {
    fn drop(&mut self) {
        for path in &self.0 {
            let deadline = Instant::now() + TIME_MAX;
            while fs::remove_dir(path).is_err() && Instant::now() < deadline {
                thread::yield_now();
            }
        }
    }
}

#[test]
fn a_control_group_counts_more_than_a_variable() {
    needs_root!();
    if !["nsenter", "unshare", "python3"].iter().all(|program| has_program(program)) {
        return skipped("nsenter, unshare or python3 is not installed");
    }
    let Some(group) = SlurmGroup::new("job_8001") else { return skipped("no control group can be made") };
    let Some(place) = Place::new() else { return skipped("no RAM disk can be mounted") };
    let mut guard = place.command(headwater_binary());
    guard.args(["guard", "--json", "--interval", "2", "--mount"]).arg(place.disk()).stdout(Stdio::piped());
    let mut guard = Running(guard.stderr(Stdio::null()).spawn().expect("nsenter is there"));
    let findings = lines(guard.0.stdout.take().expect("a pipe"));
    let conda = place.disk().join("conda");
    let storm = place.job("9999", OPENS, &[&conda, Path::new("0")]);
    fs::write(group.0[0].join("cgroup.procs"), storm.0.id().to_string()).expect("root may");
    let found = await_line(&findings, &["\"began\"", "8001"]);
    assert!(found.contains(r#""job":{"kind":"slurm","id":"8001"}"#), "{found}");
    drop(storm);
}
