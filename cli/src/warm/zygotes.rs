//! The owner's zygotes: one for each program and what it looks at before it stops.

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
use crate::session::prepare;
use crate::spawn::library::Interpreter;
use crate::spawn::on_behalf::{Arrived, Warm};

/// Programs and surroundings that have a zygote, at most: each is a process with the memory of a program.
const ZYGOTES_MAX: usize = 8;
/// How long a zygote may take until it has stopped, imports and all.
pub const START_MS_MAX: u32 = 120_000;
/// What makes a program a zygote.
const ZYGOTE_LIBRARY: &str = "libheadwater-zygote.so";
/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";

/// A request with its descriptors.
#[derive(Debug)]
pub struct PendingRequest {
    /// What is wanted.
    pub request: Request,
    /// Where the rank begins.
    pub cwd: OwnedFd,
    /// What it has open.
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
    place: u64,
    variables: u64,
}

impl Zygotes {
    /// None yet.
    pub fn new() -> Zygotes {
        // Where it is missing the library says so.
        let library = prepare::find_installed(ZYGOTE_LIBRARY).map_or_else(|_| ZYGOTE_LIBRARY.into(), Into::into);
        Zygotes { library, all: Vec::new() }
    }

    /// Sees to a zygote that can make the rank; what its proxy is to be told.
    pub fn prepare(&mut self, pending: &PendingRequest) -> Answer {
        let prepared = with_arrived(pending, |arrived| {
            let warm = self.of(&pending.request)?;
            let ready = warm.prepare(arrived);
            let (missing, own) = warm.left_out();
            if missing.is_empty() { ready.map(|()| Answer::Ready(own)) } else { Ok(Answer::Wrong(missing.join("; "))) }
        });
        prepared.unwrap_or_else(Answer::Refused)
    }

    /// Makes the rank.
    ///
    /// # Errors
    /// Why it was not made.
    pub fn spawn(&mut self, pending: &PendingRequest) -> Result<Pid, String> {
        with_arrived(pending, |arrived| self.of(&pending.request)?.spawn(arrived))
    }

    fn of(&mut self, request: &Request) -> Result<&mut Warm, String> {
        let key = Key {
            program: request.program.clone(),
            interpreter: request.interpreter.clone(),
            generation: request.generation,
            place: request.place,
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
        place: pending.request.place,
    })
}

/// The control group's directory, if it isn't that of this process.
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
