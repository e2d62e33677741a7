//! `headwater exec`: sets up one process of a session, and executes the program.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use headwater_closure::program;
use headwater_launch::info::LaunchInfo;
use headwater_store::layout::NodeDir;
use headwater_tracer::Message;
use rustix::io::Errno;
use rustix::process::Signal;

use crate::explain::missing::{self, Missing};
use crate::io::preload::{self, Environment};
use crate::launch::{CARRIED, MOUNT, SESSION, TABLE};
use crate::message::log;
use crate::namespace;
use crate::options::inner::ExecOptions;
use crate::process::{inherited, monotonic_us};
use crate::rendezvous::{self, Answer, NodeAccess, NodeIo, ToProcess};
use crate::session::prepare::AUDIT_LIBRARY;
use crate::shim::{self, Resolved};
use crate::status::Ending;
use crate::via::prefix;
use crate::warm::{self, NotBegun, RankSpec, become_rank};

/// A shell's exit status for a program that is not there.
const NOT_FOUND: u8 = 127;
/// A shell's exit status for a program that can't be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The variable that names the loader's audit libraries.
const AUDIT: &str = "LD_AUDIT";
/// How often a copy is tried that a thread of the daemon has open for writing.
const BUSY_TRIES_MAX: u32 = 50;
/// Bytes of a script's first line that are read.
const SCRIPT_LINE_BYTES_MAX: u64 = 256;
/// The pause between two tries.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// Executes the program. On failure, reports the reason and returns a shell's exit status.
pub fn exec(options: &ExecOptions) -> u8 {
    let attach_to = |job| attach(job, options.store.as_deref(), &options.program[0]);
    let attached = options.job.as_deref().map(attach_to).unwrap_or_default();
    if let Some(supervisor) = options.enter.as_ref().or(attached.enter.as_ref()) {
        enter(supervisor);
    }
    // After entering, since a change of credentials clears the death signal.
    if let Some(parent) = options.parent {
        // On failure, only the death of the parent goes unnoticed.
        let _ = rustix::process::set_parent_process_death_signal(Some(if options.gently {
            Signal::TERM
        } else {
            Signal::KILL
        }));
        if rustix::process::getppid().map(|p| p.as_raw_nonzero().get() as u32) != Some(parent) {
            return crate::status::FAILURE;
        }
    }
    let own = env::vars_os().filter(|(name, _)| attached.variables.iter().all(|(new, _)| new != name));
    let own = own.chain(attached.variables.iter().cloned());
    let mut environment = environment(own, options.audit.as_deref().or(attached.audit.as_deref()));
    if let Err(why) = preload::add(&options.io, attached.io.as_ref(), &mut environment)
        && is_first(LaunchInfo::of(&|name| env::var_os(name)).as_ref())
    {
        log(format_args!("warning: {why}. The program's I/O stays as it is on this node"));
    }
    if let Some(table) = environment.get(OsStr::new(TABLE)) {
        shim::attach(table.as_ref());
    }
    let (name, arguments) = options.program.split_first().expect("the program is required");
    let name = attached.program.as_ref().unwrap_or(name);
    let path = environment.get(OsStr::new("PATH")).map(OsString::as_os_str);
    if options.zygote {
        let supervisor = options.enter.as_deref().or(attached.enter.as_deref());
        let reports = options.reports || attached.reports;
        let node = node_of_zygotes(supervisor, options, &environment);
        match start_from_zygote(node, (options, reports), (name, path, arguments), &environment) {
            NotBegun::Refused(why) if options.node.is_none() && warm::is_first_refusal(node).unwrap_or(reports) => {
                log(format_args!("warning: {} is not forked from a zygote: {why}. It is executed", name.display()));
            }
            NotBegun::Refused(_) => {}
            // A program may start interpreters that find other modules.
            NotBegun::Wrong(_) if options.node.is_some() => {}
            NotBegun::Wrong(why) => {
                if reports {
                    log(format_args!("error: --warm-imports: {why}"));
                }
                return crate::status::FAILURE;
            }
        }
    }
    let execute = || {
        inherited::leave_closed();
        let (status, message) = complaint(name, try_all(name, path, arguments, &environment));
        log(message);
        status
    };
    match &options.trace.events {
        Some(file) => trace(&options.trace.of_tracer(), file, execute),
        None => execute(),
    }
}

/// Traces the program and writes its events to a file, with what is missing in them. Ends by the signal that ended the
/// program, or returns its exit status.
fn trace(options: &headwater_tracer::Options, events: &Path, execute: impl Fn() -> u8) -> u8 {
    // A file that another user has put there is not written to.
    let Ok(file) = File::options().write(true).create_new(true).mode(0o600).open(events) else { return execute() };
    let traced = match headwater_tracer::start(options, &execute) {
        Ok(traced) => traced,
        Err(_) => return execute(),
    };
    let mut file = io::BufWriter::new(file);
    // The reader notices that it is missing, as it notices a line that is cut off.
    let _ = writeln!(file, "{}{}", missing::START, monotonic_us());
    let status = traced.wait(|message| match message {
        Message::Event(event) => drop(writeln!(file, "{event}")),
        Message::Untraced(why) => log(format_args!("warning: the program's calls are not seen, because {why}")),
        other => match missing::of(&other) {
            Some(Missing::Note(note)) => drop(writeln!(file, "{}{note}", missing::LINE)),
            Some(Missing::Warning(warning)) => log(warning),
            None => {}
        },
    });
    let _ = file.flush();
    Ending::from(status).repeat()
}

/// How a process of a job finds its node's daemon.
#[derive(Debug, Default)]
struct Attached {
    audit: Option<PathBuf>,
    enter: Option<PathBuf>,
    /// The program below the node's mount.
    program: Option<OsString>,
    variables: Vec<(OsString, OsString)>,
    /// How the node uses the I/O library.
    io: Option<NodeIo>,
    /// This process reports what concerns the whole node.
    reports: bool,
}

/// Attaches to the node agent of the job. On failure the program runs without Headwater.
fn attach(job: &Path, store: Option<&Path>, program: &OsStr) -> Attached {
    let info = LaunchInfo::of(&|name| env::var_os(name));
    let is_first = is_first(info.as_ref());
    let (io, served) = match rendezvous::attach(job, store, is_first) {
        Ok(Answer { io, served }) => (io, served),
        Err(why) => (None, ToProcess::Alone(why)),
    };
    let mut attached = Attached { reports: is_first, io, ..Attached::default() };
    let (access, session, node, nodes) = match served {
        ToProcess::Served { access, session, node, nodes } => (access, session, node, nodes),
        ToProcess::Alone(why) => {
            if is_first {
                log(format_args!("warning: {why}. The program runs without Headwater on this node"));
            }
            return attached;
        }
    };
    let mut set = |name: &str, value: OsString| attached.variables.push((name.into(), value));
    set(SESSION, session.into());
    set("HEADWATER_NODE", node.to_string().into());
    set("HEADWATER_NODES", nodes.to_string().into());
    if let Some((rank, size)) = info.and_then(|info| info.rank.zip(info.size)) {
        set("HEADWATER_RANK", rank.to_string().into());
        set("HEADWATER_RANKS", size.to_string().into());
    }
    match access {
        NodeAccess::Audit { table, library } => {
            set(TABLE, table.into());
            attached.audit = Some(library);
        }
        NodeAccess::Enter { supervisor } => attached.enter = Some(supervisor),
        NodeAccess::Plain => {}
        NodeAccess::Mount { view, scope } => {
            let (program, variables) = prefix::translated(program, &view, scope);
            attached.program = program;
            attached.variables.extend(variables);
            attached.variables.push((MOUNT.into(), view.into()));
        }
    }
    attached
}

/// Returns whether the process is its node's first, which reports once for the node.
fn is_first(info: Option<&LaunchInfo>) -> bool {
    info.and_then(|info| info.local_rank).is_none_or(|rank| rank == 0)
}

/// Enters the node's namespaces. On failure the program uses the source files.
fn enter(supervisor: &Path) {
    if let Err(error) = namespace::enter(supervisor) {
        log(format_args!("warning: {error:#}. The program runs outside of the node's namespace"));
        if let Some(node) = supervisor.parent() {
            shim::count_fallback(&NodeDir::new(node).table_link());
        }
    }
}

/// Returns the node's directory; `None` if no session serves it.
fn node_of_zygotes<'a>(
    supervisor: Option<&'a Path>,
    options: &'a ExecOptions,
    environment: &'a Environment,
) -> Option<&'a Path> {
    let value = |wanted: &str| environment.get(OsStr::new(wanted)).map(Path::new);
    let found = || supervisor.or(value(TABLE)).or(value(MOUNT)).and_then(Path::parent);
    options.node.as_deref().or_else(found)
}

/// Has the node's zygote fork the program, and ends with its status. Returns only if the program was not started.
fn start_from_zygote(
    node: Option<&Path>,
    (options, reports): (&ExecOptions, bool),
    (name, path, arguments): (&OsStr, Option<&OsStr>, &[OsString]),
    environment: &Environment,
) -> NotBegun {
    let Some(node) = node else { return String::from("no session serves this node").into() };
    // The later exec reports a program that is missing or can't be executed.
    let Some((file, arguments)) = choose(name, path, arguments) else {
        return String::from("it can't be executed").into();
    };
    become_rank(&RankSpec {
        node,
        program: &file,
        arguments: &arguments,
        environment,
        is_child: options.node.is_some(),
        imports: options.imports.as_deref(),
        reseed: options.reseed.as_deref(),
        reports,
        is_audited: environment.contains_key(OsStr::new(TABLE)),
    })
}

/// Returns what [`try_all`] would execute, and the arguments with the name.
fn choose(name: &OsStr, path: Option<&OsStr>, arguments: &[OsString]) -> Option<(PathBuf, Vec<OsString>)> {
    let is_program = |file: &Path| {
        let is_file = file.metadata().is_ok_and(|file| file.is_file());
        is_file && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
    };
    for candidate in program::candidates(name, path) {
        match shim::resolve(&candidate, name, arguments) {
            Resolved::Fails(_) => return None,
            Resolved::Copy { file, arguments } => return Some((file.into(), arguments)),
            Resolved::Original if is_program(&candidate) => {
                return Some((candidate, [name.to_owned()].into_iter().chain(arguments.iter().cloned()).collect()));
            }
            Resolved::Original => {}
        }
    }
    None
}

/// Tries what `execvp` would try; returns the reason of the failure.
fn try_all(name: &OsStr, path: Option<&OsStr>, arguments: &[OsString], environment: &Environment) -> io::Error {
    let mut failure = Errno::NOENT;
    let with_slash = name.as_bytes().contains(&b'/');
    for candidate in program::candidates(name, path) {
        let error = try_one(&candidate, name, arguments, environment);
        match Errno::from_io_error(&error) {
            _ if with_slash => return error,
            Some(Errno::NOENT | Errno::NOTDIR) => {}
            Some(e @ Errno::ACCESS) => failure = e,
            _ => return error,
        }
    }
    failure.into()
}

/// Executes a program as `execvp` does, in this process's environment; returns the reason of the failure.
pub fn plain(name: &OsStr, arguments: &[OsString]) -> io::Error {
    let mut command = Command::new(name);
    inherited::pass_on(&mut command);
    command.args(arguments).exec()
}

/// Executes one file, by its copy if there is one; returns the reason of the failure.
fn try_one(file: &Path, name: &OsStr, arguments: &[OsString], environment: &Environment) -> io::Error {
    match shim::resolve(file, name, arguments) {
        Resolved::Fails(error) => return error,
        Resolved::Copy { file, arguments } => {
            if let Some((name, arguments)) = arguments.split_first() {
                // A script's interpreter may lie outside of the store.
                let complains = shim::note(file.as_ref());
                // If the copy can't be executed, the source file decides. Its daemon may have it open for a moment.
                for _ in 0..BUSY_TRIES_MAX {
                    let error = command(file.as_ref(), name, arguments, &loadable(environment, complains)).exec();
                    if error.kind() != io::ErrorKind::ExecutableFileBusy {
                        break;
                    }
                    thread::sleep(BUSY_PAUSE);
                }
            }
        }
        Resolved::Original => {}
    }
    let complains = shim::note(file);
    command(file, name, arguments, &loadable(environment, complains)).exec()
}

/// Returns the environment, without the audit library if the program's loader would complain about it.
fn loadable(environment: &Environment, complains: bool) -> Environment {
    let mut variables = environment.clone();
    if complains {
        change(&mut variables, AUDIT, |old| {
            let others = old.split(|&b| b == b':').filter(|l| !l.ends_with(AUDIT_LIBRARY.as_bytes()));
            others.collect::<Vec<_>>().join(&b':')
        });
        variables.retain(|name, value| name != AUDIT || !value.is_empty());
    }
    variables
}

fn command(file: &Path, name: &OsStr, arguments: &[OsString], environment: &Environment) -> Command {
    let mut command = Command::new(file);
    command.arg0(name).args(arguments).env_clear().envs(environment);
    inherited::pass_on(&mut command);
    command
}

/// Returns a shell's status and message for a program that can't be executed.
pub fn complaint(program: &OsStr, error: io::Error) -> (u8, String) {
    let shown = program.display();
    let with_slash = program.as_bytes().contains(&b'/');
    let step = next_step(program).map(|step| format!("; {step}")).unwrap_or_default();
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT) if !with_slash => (NOT_FOUND, format!("{shown}: command not found{step}")),
        Some(Errno::NOENT) if Path::new(program).exists() => {
            (NOT_FOUND, format!("{shown}: cannot execute: required file not found"))
        }
        Some(Errno::NOENT) => (NOT_FOUND, format!("{shown}: No such file or directory")),
        Some(Errno::ISDIR) => (NOT_EXECUTABLE, format!("{shown}: Is a directory")),
        Some(Errno::ACCESS) if Path::new(program).is_dir() => (NOT_EXECUTABLE, format!("{shown}: Is a directory")),
        Some(Errno::ACCESS) => (NOT_EXECUTABLE, format!("{shown}: Permission denied{step}")),
        Some(Errno::NOTDIR) => (NOT_EXECUTABLE, format!("{shown}: Not a directory")),
        _ => (NOT_EXECUTABLE, format!("{shown}: cannot execute: {error}")),
    }
}

/// Returns how to start a file that is there, and that a shell would not start by this name.
fn next_step(program: &OsStr) -> Option<String> {
    let file = Path::new(program);
    if !file.is_file() {
        return None;
    }
    let with_slash = program.as_bytes().contains(&b'/');
    let path = if with_slash { program.display().to_string() } else { format!("./{}", program.display()) };
    let is_executable = file.metadata().is_ok_and(|file| file.permissions().mode() & 0o111 != 0);
    let place = if with_slash { "it is" } else { "it is in this directory and" };
    match interpreter(file) {
        _ if is_executable && !with_slash => Some(format!("it is in this directory: write {path}")),
        _ if is_executable => None,
        Some(interpreter) => Some(format!("{place} not executable: write {interpreter} {path}, or `chmod +x {path}`")),
        None => Some(format!("{place} not executable: `chmod +x {path}`")),
    }
}

/// Returns the interpreter of a script, by its first line or its name.
fn interpreter(file: &Path) -> Option<String> {
    let mut line = Vec::new();
    if let Ok(file) = File::open(file) {
        // What can't be read has no first line.
        let _ = file.take(SCRIPT_LINE_BYTES_MAX).read_to_end(&mut line);
    }
    if let Some(arguments) = program::script_arguments(&line) {
        let named = program::behind_env(&arguments).or(arguments.first().map(OsString::as_os_str))?;
        return Some(Path::new(named).file_name()?.to_string_lossy().into_owned());
    }
    let by_name = [("py", "python3"), ("sh", "sh"), ("pl", "perl"), ("R", "Rscript"), ("jl", "julia"), ("lua", "lua")];
    let extension = file.extension()?;
    by_name.iter().find(|(name, _)| extension == *name).map(|(_, interpreter)| (*interpreter).into())
}

/// Returns the program's environment: carried variables are restored, and LD_AUDIT names the audit library.
fn environment(own: impl Iterator<Item = (OsString, OsString)>, audit: Option<&Path>) -> Environment {
    let mut variables: Environment = own
        .map(|(name, value)| match name.as_bytes().strip_prefix(CARRIED.as_bytes()) {
            Some(carried) => (OsStr::from_bytes(carried).to_owned(), value),
            None => (name, value),
        })
        .collect();
    let Some(audit) = audit else { return variables };
    change(&mut variables, AUDIT, |old| {
        // Leaves out an outer session's library.
        let others = old.split(|&b| b == b':').filter(|l| !l.is_empty() && !l.ends_with(AUDIT_LIBRARY.as_bytes()));
        [audit.as_os_str().as_bytes()].into_iter().chain(others).collect::<Vec<_>>().join(&b':')
    });
    variables
}

fn change(variables: &mut Environment, name: &str, new: impl FnOnce(&[u8]) -> Vec<u8>) {
    let value = variables.entry(name.into()).or_default();
    *value = OsString::from_vec(new(value.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: &[(&str, &str)], audit: Option<&str>, expected: &[(&str, &str)]) {
        let own = own.iter().map(|(n, v)| (OsString::from(n), OsString::from(v)));
        let made = environment(own, audit.map(Path::new));
        let expected: Environment = expected.iter().map(|(n, v)| (OsString::from(n), OsString::from(v))).collect();
        assert_eq!(made, expected);
    }

    #[test]
    fn variables_of_the_loader() {
        check(&[("A", "1"), ("HEADWATER_CARRIED_LD_PRELOAD", "x")], None, &[("A", "1"), ("LD_PRELOAD", "x")]);
        check(&[("A", "1")], Some("/n/a.so"), &[("A", "1"), ("LD_AUDIT", "/n/a.so")]);
        check(
            &[
                ("HEADWATER_CARRIED_LD_AUDIT", "/x/libheadwater-audit.so:/tool.so"),
                ("HEADWATER_CARRIED_GLIBC_TUNABLES", "glibc.malloc.check=1"),
            ],
            Some("/n/a.so"),
            &[("LD_AUDIT", "/n/a.so:/tool.so"), ("GLIBC_TUNABLES", "glibc.malloc.check=1")],
        );
    }

    #[test]
    fn a_file_that_is_there_has_a_next_step() {
        let directory = tempfile::tempdir().unwrap();
        let check = |name: &str, text: &str, mode: u32, expected: Option<&str>| {
            let file = directory.path().join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            let expected = expected.map(|text| text.replace('@', &file.display().to_string()));
            assert_eq!(next_step(file.as_os_str()), expected, "{name}");
        };
        check("a.py", "import os\n", 0o644, Some("it is not executable: write python3 @, or `chmod +x @`"));
        check("b", "#!/usr/bin/env -S perl -w\n", 0o644, Some("it is not executable: write perl @, or `chmod +x @`"));
        check("c.sh", "#!/bin/bash\n", 0o644, Some("it is not executable: write bash @, or `chmod +x @`"));
        check("d", "\x7fELF", 0o644, Some("it is not executable: `chmod +x @`"));
        check("e", "", 0o755, None);
        assert_eq!((next_step(OsStr::new("/nonexistent/x")), next_step(OsStr::new("/etc"))), (None, None));
    }

    #[test]
    fn complaints_are_a_shells() {
        let check = |program: &str, errno: Errno, status: u8, message: &str| {
            assert_eq!(complaint(OsStr::new(program), errno.into()), (status, message.to_owned()));
        };
        check("nothing", Errno::NOENT, 127, "nothing: command not found");
        check("./nothing", Errno::NOENT, 127, "./nothing: No such file or directory");
        check("/etc/passwd", Errno::NOENT, 127, "/etc/passwd: cannot execute: required file not found");
        check("/etc/x", Errno::ACCESS, 126, "/etc/x: Permission denied");
        check("/etc", Errno::ACCESS, 126, "/etc: Is a directory");
        check("/etc/passwd/x", Errno::NOTDIR, 126, "/etc/passwd/x: Not a directory");
    }
}
