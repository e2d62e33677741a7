//! Follows processes from stop to stop.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use headwater_closure::recorded::{Call, CallKind, Event, TEXT_BYTES_MAX};
use libc::{c_long, c_uint, pid_t};

use crate::affinity::Affinity;
use crate::call::{self, Begun};
use crate::clock::Clock;
use crate::memory;
use crate::messages::{Messages, Refusal};
use crate::privileges;
use crate::request::{self, Resume, Side};

/// Variables by which files are found.
const VARIABLES: [&[u8]; 6] =
    [b"LD_LIBRARY_PATH", b"LD_PRELOAD", b"PATH", b"PYTHONPATH", b"PYTHONHOME", b"VIRTUAL_ENV"];

/// Where processes stop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stops {
    /// At the calls of the filter.
    Filtered,
    /// At each call.
    Each,
    /// Nowhere: they are not traced.
    None,
}

/// The processes of a program.
pub(crate) struct Processes {
    program: pid_t,
    stops: Stops,
    clock: Clock,
    until: Option<Duration>,
    /// The process that is stopped with the program.
    caller: pid_t,
    threads: HashMap<pid_t, Thread>,
    messages: Messages,
    affinity: Affinity,
    /// Programs have the privileges that their files give, although they are traced.
    keeps_privileges: bool,
    /// Threads that are to be released, each with the threads that wait for that to trace it.
    handed: HashMap<pid_t, Vec<pid_t>>,
}

#[derive(Default)]
struct Thread {
    process: pid_t,
    /// The call that has begun, and when, and when the thread went on.
    call: Option<(Begun, u64, u64)>,
    /// Whether the loader's end has been seen since the last execution.
    is_loaded: bool,
}

impl Processes {
    /// Follows the program and its descendants; the program begins when it is executed.
    pub(crate) fn new(
        program: pid_t,
        stops: Stops,
        until: Option<Duration>,
        caller: pid_t,
        messages: Messages,
    ) -> Processes {
        let threads = HashMap::from([(program, Thread { process: program, ..Thread::default() })]);
        let affinity = if stops == Stops::None { Affinity::none() } else { Affinity::restrict(program) };
        Processes {
            affinity,
            program,
            stops,
            clock: Clock::start(),
            until,
            caller,
            threads,
            messages,
            keeps_privileges: privileges::survive_filter(),
            handed: HashMap::new(),
        }
    }

    /// Returns when all have ended.
    pub(crate) fn follow(mut self) {
        loop {
            let mut status = 0;
            // SAFETY: it writes to `status` alone.
            let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
            if thread < 0 {
                if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted {
                    self.affinity.examine(self.threads.keys().copied());
                    continue;
                }
                return;
            }
            self.clock.stop();
            self.affinity.note_stop();
            if libc::WIFSTOPPED(status) {
                let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
                let (how, signal) = self.stopped(thread, signal, event);
                if how == Resume::Released {
                    self.threads.remove(&thread);
                }
                request::resume(thread, how, signal);
            } else {
                self.ended(thread, status);
            }
            if self.affinity.is_restricted() {
                self.clock.leave_out();
            }
        }
    }

    /// Handles a thread's stop; returns how it goes on, and with which signal.
    fn stopped(&mut self, thread: pid_t, signal: i32, event: i32) -> (Resume, i32) {
        const CALL: i32 = libc::SIGTRAP | 0x80;
        if self.until.is_some_and(|until| self.clock.elapsed() >= until) {
            self.affinity.lift(self.threads.keys().copied());
            return (Resume::Released, self.released(thread, signal, event));
        }
        if let Some(callers) = self.handed.remove(&thread) {
            self.hand_over(thread, pending(signal, event), &callers);
            return (Resume::Wait, 0);
        }
        let delivered = match (event, signal) {
            (libc::PTRACE_EVENT_SECCOMP, _) | (0, CALL) => {
                let how = self.at_call(thread);
                if how != Resume::ToCall {
                    return (how, 0);
                }
                0
            }
            (libc::PTRACE_EVENT_EXEC, _) => {
                self.executed(thread);
                0
            }
            (libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE, _) => {
                if let Some(child) = request::event_number(thread) {
                    self.begun(child, thread);
                }
                0
            }
            (libc::PTRACE_EVENT_EXIT, _) => {
                self.exits(thread);
                0
            }
            (libc::PTRACE_EVENT_STOP, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => {
                self.mirror_stop(thread);
                return (Resume::Listen, 0);
            }
            (0, signal) => signal,
            _ => 0,
        };
        let in_call = self.threads.get(&thread).is_some_and(|thread| thread.call.is_some());
        let how = if in_call || self.stops == Stops::Each { Resume::ToCall } else { Resume::Run };
        (how, delivered)
    }

    /// Returns the signal with which a thread is released.
    fn released(&mut self, thread: pid_t, signal: i32, event: i32) -> i32 {
        let at_ns = self.now_ns();
        if let Some(until) = self.until.filter(|_| thread == self.program) {
            self.messages.released((until.as_nanos() as u64).min(at_ns));
        }
        pending(signal, event)
    }

    fn now_ns(&self) -> u64 {
        self.clock.at_stop_ns
    }

    fn at_call(&mut self, thread: pid_t) -> Resume {
        let at_ns = self.now_ns();
        match request::call(thread) {
            Ok(Side::Entry(number, arguments)) => {
                if let Some(how) = self.before_tracing(thread, number, arguments) {
                    return how;
                }
                let begun = call::begun(thread, number, arguments);
                if Affinity::is_changed_by(number) || begun.as_ref().is_some_and(Begun::shows_affinity) {
                    self.affinity.lift(self.threads.keys().copied());
                }
                if let Some(Begun::Execute(file)) = &begun
                    && self.stops == Stops::Each
                    && !self.keeps_privileges
                    && privileges::gives_privileges_to(thread, file)
                {
                    self.messages.privileged(file);
                    self.leave(thread);
                    return Resume::Released;
                }
                if let Some(Begun::Processors(asked)) = begun
                    && self.threads.contains_key(&asked)
                {
                    self.affinity.release(asked);
                }
                let known = self.thread(thread);
                if matches!(begun, Some(Begun::LoadedMark)) && !known.is_loaded {
                    known.is_loaded = true;
                    let process = known.process as u32;
                    self.messages.event(&Event::Loaded { at_ns, process });
                }
                let resumed_ns = if self.affinity.is_restricted() { at_ns } else { self.clock.now_ns() };
                let call = begun.filter(Begun::has_result).map(|begun| (begun, at_ns, resumed_ns));
                self.thread(thread).call = call;
            }
            Ok(Side::Exit(result)) => {
                if let Some((Begun::Processors(asked), ..)) = self.thread(thread).call
                    && self.threads.contains_key(&asked)
                {
                    self.affinity.restrict_again(asked);
                }
                let known = self.thread(thread);
                let process = known.process as u32;
                if let Some((begun, begun_ns, resumed_ns)) = known.call.take()
                    && let Some(ended) = begun.ended(thread, result)
                {
                    let length_ns = at_ns.saturating_sub(resumed_ns);
                    let call::Result { kind, path, errno, size } = ended;
                    let call = Call { at_ns: begun_ns, length_ns, process, kind, errno, size, path };
                    self.messages.event(&Event::Call(call));
                }
            }
            Ok(Side::Foreign) => request::refuse(thread),
            // It was killed.
            Err(_) => {}
        }
        Resume::ToCall
    }

    /// Handles a call by which a process traces others, or limits itself in a way that a filter excludes; returns how
    /// the thread goes on if that is decided.
    fn before_tracing(&mut self, thread: pid_t, number: c_long, arguments: [u64; 6]) -> Option<Resume> {
        let [first, second, ..] = arguments;
        let (is_strict, traces) = (number == libc::SYS_prctl && first == libc::PR_SET_SECCOMP as u64, libc::SYS_ptrace);
        let is_strict = is_strict && second == u64::from(libc::SECCOMP_MODE_STRICT);
        let is_strict = is_strict || number == libc::SYS_seccomp && first == u64::from(libc::SECCOMP_SET_MODE_STRICT);
        if is_strict && self.stops == Stops::Filtered {
            self.messages.refused(Refusal::StrictMode, &memory::program(thread));
        }
        if number != traces {
            return None;
        }
        let target = match first as c_uint {
            libc::PTRACE_TRACEME => thread,
            libc::PTRACE_ATTACH | libc::PTRACE_SEIZE => second as pid_t,
            _ => return None,
        };
        if !self.threads.contains_key(&target) {
            return None;
        }
        if self.stops == Stops::Filtered {
            // Without a tracer, the filter would let its calls fail.
            self.messages.refused(Refusal::Tracing, &memory::program(thread));
            return None;
        }
        if target == thread {
            self.messages.handed(&memory::program(thread));
            self.leave(thread);
            return Some(Resume::Released);
        }
        self.handed.entry(target).or_default().push(thread);
        request::interrupt(target);
        Some(Resume::Wait)
    }

    /// Releases a thread, which another one of the program is about to trace.
    fn hand_over(&mut self, thread: pid_t, signal: i32, callers: &[pid_t]) {
        self.messages.handed(&memory::program(thread));
        self.leave(thread);
        self.threads.remove(&thread);
        request::resume(thread, Resume::Released, signal);
        callers.iter().for_each(|&caller| request::resume(caller, Resume::ToCall, 0));
    }

    /// Ends the report of a process that is released.
    fn leave(&mut self, thread: pid_t) {
        let at_ns = self.now_ns();
        let process = self.thread(thread).process as u32;
        self.affinity.release(thread);
        self.messages.event(&Event::End { at_ns, process, status: 0 });
    }

    /// Returns a thread, which may have stopped before its parent's event.
    fn thread(&mut self, thread: pid_t) -> &mut Thread {
        self.threads.entry(thread).or_insert_with(|| Thread {
            process: memory::process_of(thread),
            is_loaded: true,
            call: None,
        })
    }

    fn begun(&mut self, child: pid_t, parent: pid_t) {
        let at_ns = self.now_ns();
        let parent = self.thread(parent).process as u32;
        let process = self.thread(child).process;
        self.affinity.note_threads();
        if process == child {
            self.messages.event(&Event::Begin { at_ns, process: process as u32, parent });
        }
    }

    fn executed(&mut self, thread: pid_t) {
        // The process has one thread now, which has its PID, and was the one that the event names.
        let former = request::event_number(thread).unwrap_or(thread);
        let call = self.threads.get_mut(&former).and_then(|thread| thread.call.take());
        self.threads.retain(|_, known| known.process != thread);
        self.threads.insert(thread, Thread { process: thread, ..Thread::default() });
        let process = thread as u32;
        let at_ns = self.now_ns();
        if let Some((Begun::Execute(path), begun_ns, resumed_ns)) = call {
            let length_ns = at_ns.saturating_sub(resumed_ns);
            let call = Call { at_ns: begun_ns, length_ns, process, kind: CallKind::Execute, errno: 0, size: 0, path };
            self.messages.event(&Event::Call(call));
        }
        if let Ok(path) = fs::read_link(format!("/proc/{thread}/exe")) {
            self.messages.event(&Event::Image { at_ns, process, path });
        }
        let arguments = fs::read(format!("/proc/{thread}/cmdline")).unwrap_or_default();
        let shown: Vec<u8> = arguments.split(|&byte| byte == 0).collect::<Vec<_>>().join(&b' ');
        let shown = shown.trim_ascii();
        if !shown.is_empty() {
            let text = OsString::from_vec(shown[..shown.len().min(256)].to_vec());
            self.messages.event(&Event::Command { process, text });
        }
        let environment = fs::read(format!("/proc/{thread}/environ")).unwrap_or_default();
        for text in environment.split(|&byte| byte == 0).filter(|text| text.len() <= TEXT_BYTES_MAX) {
            let name = text.split(|&byte| byte == b'=').next().unwrap_or_default();
            if VARIABLES.contains(&name) {
                let text = OsString::from_vec(text.to_vec());
                self.messages.event(&Event::Variable { process, text });
            }
        }
    }

    /// Reports what a process has in memory that is about to end.
    fn exits(&mut self, thread: pid_t) {
        let process = self.thread(thread).process;
        if process != thread {
            return;
        }
        for (path, bytes) in memory::resident(thread) {
            if path.as_os_str().as_bytes().len() < 4096 {
                self.messages.event(&Event::Used { process: process as u32, bytes, path });
            }
        }
    }

    fn ended(&mut self, thread: pid_t, status: i32) {
        for caller in self.handed.remove(&thread).into_iter().flatten() {
            request::resume(caller, Resume::ToCall, 0);
        }
        let is_process = self.threads.remove(&thread).is_none_or(|known| known.process == thread);
        if is_process {
            let code = if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) };
            let at_ns = self.now_ns();
            self.messages.event(&Event::End { at_ns, process: thread as u32, status: code as u32 });
        }
        if thread == self.program {
            self.messages.ended(status);
            self.affinity.lift(self.threads.keys().copied());
            // The caller ends now; what the program has left running is followed to its end.
            crate::signals::outlive_caller();
            self.caller = 0;
        }
    }

    /// Stops the caller with the program, as a shell expects of the process that it started.
    fn mirror_stop(&self, thread: pid_t) {
        if thread == self.program && self.caller > 1 {
            // SAFETY: it sends a signal to a process of the same user.
            unsafe { libc::kill(self.caller, libc::SIGSTOP) };
        }
    }
}

/// Returns the signal that a stopped thread gets when it is released.
fn pending(signal: i32, event: i32) -> i32 {
    if event == 0 && signal & 0x80 == 0 { signal } else { 0 }
}
