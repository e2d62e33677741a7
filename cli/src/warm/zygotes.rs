//! The owner's zygotes: one for each program and the variables that it reads before it stops.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

use super::packet::Answer;
use super::request::Request;
use crate::installed;
use crate::spawn::library::Interpreter;
use crate::spawn::on_behalf::{Arrived, Warm};

/// Limit of zygotes: each is a process with the memory of a program.
const ZYGOTES_MAX: usize = 8;
/// Timeout of a zygote's start, with its imports.
pub const START_MS_MAX: u32 = 120_000;
/// The library that makes a program a zygote.
const ZYGOTE_LIBRARY: &str = "libheadwater-zygote.so";
/// The directory of control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// A request with its descriptors.
#[derive(Debug)]
pub struct PendingRequest {
    /// The request.
    pub request: Request,
    /// The rank's working directory.
    pub cwd: OwnedFd,
    /// The rank's descriptors.
    pub fds: Vec<OwnedFd>,
}

/// The zygotes.
#[derive(Debug)]
pub struct Zygotes {
    library: OsString,
    all: Vec<(Key, Warm)>,
}

#[derive(Debug, PartialEq, Eq)]
struct Key {
    program: Vec<u8>,
    interpreter: Option<(Vec<Vec<u8>>, Vec<u8>)>,
    generation: u64,
    attributes: u64,
    variables: u64,
}

impl Zygotes {
    /// Returns an empty list.
    pub fn new() -> Zygotes {
        // The spawning library reports a missing file.
        let library = installed::find(ZYGOTE_LIBRARY).map_or_else(|_| ZYGOTE_LIBRARY.into(), Into::into);
        Zygotes { library, all: Vec::new() }
    }

    /// Prepares a zygote for the rank; returns the answer to its proxy.
    pub fn prepare(&mut self, pending: &PendingRequest) -> Answer {
        let prepared = with_arrived(pending, |arrived| {
            let warm = self.of(&pending.request)?;
            let ready = warm.prepare(arrived);
            let (missing, own) = warm.left_out();
            if missing.is_empty() { ready.map(|()| Answer::Ready(own)) } else { Ok(Answer::Wrong(missing.join("; "))) }
        });
        prepared.unwrap_or_else(Answer::Refused)
    }

    /// Forks the rank.
    ///
    /// # Errors
    /// The reason of a failure.
    pub fn spawn(&mut self, pending: &PendingRequest) -> Result<Pid, String> {
        with_arrived(pending, |arrived| self.of(&pending.request)?.spawn(arrived))
    }

    fn of(&mut self, request: &Request) -> Result<&mut Warm, String> {
        let key = Key {
            program: request.program.clone(),
            interpreter: request.interpreter.clone(),
            generation: request.generation,
            attributes: request.attributes,
            variables: request.variables,
        };
        let at = match self.all.iter().position(|(known, _)| *known == key) {
            Some(at) => at,
            None if self.all.len() >= ZYGOTES_MAX => {
                return Err(format!(
                    "this node has {ZYGOTES_MAX} zygotes already, one for each program and its variables for libraries"
                ));
            }
            None => {
                let warm = create(request, &self.library).map_err(|error| error.to_string())?;
                self.all.push((key, warm));
                self.all.len() - 1
            }
        };
        Ok(&mut self.all[at].1)
    }
}

fn create(request: &Request, library: &OsStr) -> io::Result<Warm> {
    let interpreter = request.interpreter.as_ref().map(|(arguments, imports)| -> io::Result<Interpreter> {
        let arguments = arguments.iter().map(|argument| CString::new(&argument[..])).collect::<Result<_, _>>()?;
        Ok(Interpreter { arguments, imports: CString::new(&imports[..])? })
    });
    let program = Path::new(OsStr::from_bytes(&request.program));
    Warm::create(program, interpreter.transpose()?.as_ref(), library, START_MS_MAX)
}

fn with_arrived<T>(pending: &PendingRequest, then: impl FnOnce(&Arrived) -> Result<T, String>) -> Result<T, String> {
    let group = group(&pending.request.groups)?;
    then(&Arrived {
        data: &pending.request.description,
        fds: &pending.fds,
        cwd: &pending.cwd,
        cgroup: group.as_ref().map(AsFd::as_fd),
        attributes: pending.request.attributes,
    })
}

/// Opens the control group's directory, unless the group is this process's.
fn group(groups: &[u8]) -> Result<Option<OwnedFd>, String> {
    if fs::read("/proc/self/cgroup").is_ok_and(|own| own == groups) {
        return Ok(None);
    }
    let path = groups.strip_prefix(b"0::/").and_then(|path| path.strip_suffix(b"\n")).filter(|p| !p.contains(&b'\n'));
    let Some(path) = path else {
        return Err("it is in another control group, of a kind that can't be entered from outside".into());
    };
    let directory = Path::new(GROUPS).join(OsStr::from_bytes(path));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&directory, flags, Mode::empty());
    opened.map(Some).map_err(|error| format!("its control group {} can't be entered: {error}", directory.display()))
}
