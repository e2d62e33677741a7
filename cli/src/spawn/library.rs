//! Bindings of the spawning library in C (`spawn/`), which executes processes in several ways or forks a zygote.
//!
//! While a [`Context`] lives, wait for processes by PID or by their group: the zygote is a child too, in a group of its
//! own.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use clap::ValueEnum;
use libc::{cpu_set_t, mode_t, pid_t, rlimit, sigset_t};
use rustix::process::Pid;

/// How processes are made, as `enum pspawn_mechanism` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mechanism {
    /// From a zygote if that is faithful, else by `Vfork`.
    Auto,
    /// Forks of one process that was exec'd.
    Zygote,
    /// Sharing memory until exec.
    Vfork,
    /// The same, without signals' handlers.
    Clone3,
    /// The C library's function.
    PosixSpawn,
    /// fork and exec.
    Fork,
    /// The first child forks the others.
    Pfork,
}

/// Where a zygote stops, as `enum pspawn_stop` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[repr(u32)]
pub enum Stop {
    /// When all libraries are loaded, before the first constructor.
    Load,
    /// Before `main`, when all constructors have run.
    Main,
    /// After the imports of a Python interpreter.
    #[value(skip)]
    Python = 3,
}

/// How processes are spread over the machine's memory domains, as `enum pspawn_numa` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[repr(u32)]
pub enum Numa {
    /// Not at all.
    #[default]
    #[value(skip)]
    None,
    /// One core each; a domain's cores before those of the next.
    Fill,
    /// One core each; the next domain for each process.
    Spread,
    /// All cores of a domain; the next domain for each process.
    Domain,
}

/// What a process does with its descriptors before its program begins.
#[derive(Clone, Debug)]
pub enum FileAction {
    /// Opens a file as this descriptor.
    Open {
        /// Its number.
        fd: i32,
        /// Of the file.
        path: CString,
        /// As those of `open`.
        flags: i32,
        /// Of a file that is made.
        mode: mode_t,
    },
    /// Makes a descriptor a copy of another one, which it has from the caller or from an action before.
    Copy {
        /// Of what.
        from: i32,
        /// The copy.
        fd: i32,
    },
}

/// A process to be spawned.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its arguments, the program's name among them.
    pub arguments: Vec<CString>,
    /// Variables beside those that all have.
    pub variables: Vec<CString>,
    /// The processors on which it may run; those of the options if there are none.
    pub cores: Vec<usize>,
    /// Actions before the program starts.
    pub actions: Vec<FileAction>,
}

/// Options of all processes of one call.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The placement of processes without cores.
    pub numa: Numa,
    /// The number of the first process of the call, from which `numa` counts.
    pub first: u32,
    /// The limits of open files, soft and hard, if they differ from the caller's.
    pub open_files_max: Option<(u64, u64)>,
}

/// A program whose processes are spawned.
#[derive(Debug)]
pub struct Context {
    raw: RawContext,
    /// The library refers to it when it restarts a zygote.
    environment: Vec<CString>,
}

/// It is destroyed when this is dropped.
#[derive(Debug)]
#[repr(C)]
pub(super) struct RawContext {
    state: *mut c_void,
}

#[derive(Default)]
#[repr(C)]
pub(super) struct RawContextOptions {
    pub(super) size: usize,
    pub(super) mechanism: c_uint,
    pub(super) stop: c_uint,
    pub(super) on_core: c_int,
    pub(super) core: c_int,
    pub(super) argv: *const *const c_char,
    pub(super) envp: *const *const c_char,
    pub(super) imports: *const c_char,
    pub(super) key_variables: *const c_char,
    pub(super) start_ms_max: c_uint,
    pub(super) zygote_library: *const c_char,
    pub(super) stopped_ms_max: c_uint,
    pub(super) mask: *const cpu_set_t,
    pub(super) mask_size: usize,
}

/// A function of the library that creates a context.
pub(super) type Creator = unsafe extern "C" fn(*mut RawContext, *const c_char, *const RawContextOptions) -> c_int;

#[repr(C)]
struct RawFileAction {
    kind: c_uint,
    fd: c_int,
    from: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
}

#[repr(C)]
struct RawProcess {
    argv: *const *const c_char,
    envp: *const *const c_char,
    mask: *const cpu_set_t,
    mask_size: usize,
    cwd: *const c_char,
    file_actions: *const RawFileAction,
    file_action_count: usize,
}

#[repr(C)]
struct RawLimit {
    resource: c_int,
    limit: rlimit,
}

#[repr(C)]
struct RawOptions {
    size: usize,
    flags: c_uint,
    numa: c_uint,
    pgroup: pid_t,
    umask: mode_t,
    cgroup: c_int,
    signal_mask: sigset_t,
    signal_default: sigset_t,
    limits: *const RawLimit,
    limit_count: usize,
    first: c_uint,
}

/// `enum pspawn_file_action_kind`.
const OPEN: c_uint = 0;
const DUP2: c_uint = 2;
/// `enum pspawn_option_flags`.
const SET_SIGNALS_DEFAULT: c_uint = 32;

unsafe extern "C" {
    fn hwsp_on_behalf_left_out(context: *const RawContext) -> *const c_char;
    fn pspawn_context_create_with(
        context: *mut RawContext,
        path: *const c_char,
        options: *const RawContextOptions,
    ) -> c_int;
    fn pspawn_context_destroy(context: *mut RawContext);
    fn pspawn_context_mechanism(context: *mut RawContext, reason: *mut *const c_char) -> c_uint;
    fn pspawn_context_early(context: *mut RawContext) -> *const c_char;
    fn pspawn_mechanism_name(mechanism: c_uint) -> *const c_char;
    fn pspawn_many(
        context: *mut RawContext,
        processes: *const RawProcess,
        count: c_uint,
        options: *const RawOptions,
        pids: *mut pid_t,
        errors: *mut c_int,
    ) -> c_int;
}

impl Mechanism {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        // SAFETY: the library's names are constants, each ended by NUL.
        let name = unsafe { CStr::from_ptr(pspawn_mechanism_name(self as c_uint)) };
        name.to_str().unwrap_or("unknown")
    }
}

/// A Python interpreter as a zygote.
#[derive(Debug)]
pub struct Interpreter {
    /// Its name and options.
    pub arguments: Vec<CString>,
    /// Its imports before it stops, separated by commas.
    pub imports: CString,
}

impl Context {
    /// Prepares `program`, which is searched in PATH if its name has no slash. Its processes have `environment` and
    /// their own variables. A zygote starts with `environment`, and with the variables and processors of the process
    /// `like`. `zygote_library` is the path of `libheadwater-zygote.so`. A zygote stops at `stop`; with `interpreter`,
    /// after its imports.
    ///
    /// # Errors
    /// Those of `execve`. A program that can't become a zygote is not an error.
    pub fn create(
        program: &CStr,
        mechanism: Mechanism,
        environment: Vec<CString>,
        like: &Process,
        zygote_library: &Path,
        stop: Stop,
        interpreter: Option<&Interpreter>,
    ) -> io::Result<Context> {
        let envp = list(environment.iter().chain(&like.variables));
        let mask = (!like.cores.is_empty()).then(|| processors(&like.cores));
        let options = RawContextOptions {
            mechanism: mechanism as c_uint,
            stop: stop as c_uint,
            envp: envp.as_ptr(),
            mask: mask.as_ref().map_or(ptr::null(), ptr::from_ref),
            mask_size: size_of::<cpu_set_t>(),
            ..RawContextOptions::default()
        };
        // SAFETY: the list ends with NULL; it and the set live until the call is over.
        let raw = unsafe {
            RawContext::create(pspawn_context_create_with, program, interpreter, zygote_library.as_os_str(), options)?
        };
        Ok(Context { raw, environment })
    }

    /// Returns how its processes are made, and why a requested zygote is missing.
    pub fn mechanism(&mut self) -> (Mechanism, Option<String>) {
        let mut reason = ptr::null();
        // SAFETY: the context was made and not destroyed; `reason` is the library's to write.
        let mechanism = unsafe { pspawn_context_mechanism(&raw mut self.raw, &raw mut reason) };
        let mechanism = match mechanism {
            1 => Mechanism::Zygote,
            3 => Mechanism::Clone3,
            4 => Mechanism::PosixSpawn,
            5 => Mechanism::Fork,
            6 => Mechanism::Pfork,
            _ => Mechanism::Vfork,
        };
        // SAFETY: a reason is a string that lives until the next call.
        (mechanism, unsafe { text(reason) })
    }

    /// Returns which code of the program has run before its zygote stopped before the constructors.
    pub fn early(&mut self) -> Option<String> {
        // SAFETY: the context was made and not destroyed; the text lives as long as its zygote.
        unsafe { text(pspawn_context_early(&raw mut self.raw)) }
    }

    /// Returns modules that the zygote has not imported, each with the reason.
    pub fn left_out(&self) -> Vec<String> {
        let (missing, own) = left_out(&self.raw);
        missing.into_iter().chain(own).collect()
    }

    /// Spawns processes; returns the PID or the error of each. They are children of this process, and start with the
    /// default action of SIGPIPE, which Rust programs ignore.
    ///
    /// # Errors
    /// No process could be tried.
    pub fn spawn(&mut self, processes: &[Process], options: &Options) -> io::Result<Vec<io::Result<Pid>>> {
        let lists: Vec<Lists> = processes.iter().map(|process| Lists::of(process, &self.environment)).collect();
        let raw: Vec<RawProcess> = lists.iter().map(Lists::raw).collect();
        let limits = options.open_files_max.map(|(soft, hard)| RawLimit {
            resource: libc::RLIMIT_NOFILE as c_int,
            limit: rlimit { rlim_cur: soft, rlim_max: hard },
        });
        let raw_options = RawOptions {
            size: size_of::<RawOptions>(),
            flags: SET_SIGNALS_DEFAULT,
            numa: options.numa as c_uint,
            pgroup: 0,
            umask: 0,
            cgroup: -1,
            signal_mask: signals(&[]),
            signal_default: signals(&[libc::SIGPIPE]),
            limits: limits.as_ref().map_or(ptr::null(), ptr::from_ref),
            limit_count: usize::from(limits.is_some()),
            first: options.first,
        };
        let (mut pids, mut errors) = (vec![-1; raw.len()], vec![0; raw.len()]);
        // SAFETY: all lists and strings that `raw` and `raw_options` point to live until the call is over, and the
        // library keeps none; `pids` and `errors` have an entry for each process.
        let started = unsafe {
            pspawn_many(
                &raw mut self.raw,
                raw.as_ptr(),
                raw.len() as c_uint,
                &raw const raw_options,
                pids.as_mut_ptr(),
                errors.as_mut_ptr(),
            )
        };
        if started < 0 {
            return Err(io::Error::last_os_error());
        }
        let outcome = |(&pid, &error): (&pid_t, &c_int)| {
            Pid::from_raw(pid.max(0)).ok_or_else(|| io::Error::from_raw_os_error(error))
        };
        Ok(pids.iter().zip(&errors).map(outcome).collect())
    }
}

/// Copies a text of the library.
///
/// # Safety
/// It is NULL, or a string that lives during the call.
unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: as the caller guarantees.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

impl RawContext {
    /// Creates a context by this function, with the path of `libheadwater-zygote.so`. With an interpreter, a zygote
    /// stops after its imports.
    ///
    /// # Errors
    /// Those of `execve`.
    ///
    /// # Safety
    /// What the options point to is as the library expects it, and lives during the call.
    pub(super) unsafe fn create(
        creator: Creator,
        program: &CStr,
        interpreter: Option<&Interpreter>,
        zygote_library: &OsStr,
        mut options: RawContextOptions,
    ) -> io::Result<RawContext> {
        let library = CString::new(zygote_library.as_bytes())?;
        let arguments = interpreter.map(|interpreter| list(&interpreter.arguments));
        if let (Some(interpreter), Some(arguments)) = (interpreter, &arguments) {
            options.stop = Stop::Python as c_uint;
            (options.argv, options.imports) = (arguments.as_ptr(), interpreter.imports.as_ptr());
        }
        (options.size, options.zygote_library) = (size_of::<RawContextOptions>(), library.as_ptr());
        let mut raw = RawContext { state: ptr::null_mut() };
        // SAFETY: all pointers are to strings, and to a list with NULL at its end, that live until the call is over, or
        // as the caller guarantees; the library copies the strings that it keeps, and forgets the rest.
        match unsafe { creator(&raw mut raw, program.as_ptr(), &raw const options) } {
            0 => Ok(raw),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for RawContext {
    fn drop(&mut self) {
        // SAFETY: it was made, or is NULL, and is not used afterwards.
        unsafe { pspawn_context_destroy(self) };
    }
}

/// The memory that a process's structure points to.
struct Lists {
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    mask: Option<Box<cpu_set_t>>,
    actions: Vec<RawFileAction>,
}

impl Lists {
    /// Points into the process and the environment, which must outlive it.
    fn of(process: &Process, environment: &[CString]) -> Lists {
        let actions = process.actions.iter().map(|action| match action {
            FileAction::Open { fd, path, flags, mode } => {
                RawFileAction { kind: OPEN, fd: *fd, from: -1, path: path.as_ptr(), flags: *flags, mode: *mode }
            }
            FileAction::Copy { from, fd } => {
                RawFileAction { kind: DUP2, fd: *fd, from: *from, path: ptr::null(), flags: 0, mode: 0 }
            }
        });
        Lists {
            argv: list(&process.arguments),
            envp: list(environment.iter().chain(&process.variables)),
            mask: (!process.cores.is_empty()).then(|| Box::new(processors(&process.cores))),
            actions: actions.collect(),
        }
    }

    fn raw(&self) -> RawProcess {
        RawProcess {
            argv: self.argv.as_ptr(),
            envp: self.envp.as_ptr(),
            mask: self.mask.as_deref().map_or(ptr::null(), ptr::from_ref),
            mask_size: size_of::<cpu_set_t>(),
            cwd: ptr::null(),
            file_actions: self.actions.as_ptr(),
            file_action_count: self.actions.len(),
        }
    }
}

/// Returns pointers to the strings, with NULL at the end. The strings must outlive the list.
pub(super) fn list<'a>(strings: impl IntoIterator<Item = &'a CString>) -> Vec<*const c_char> {
    strings.into_iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

fn processors(cores: &[usize]) -> cpu_set_t {
    // SAFETY: a set is an array of integers.
    let mut set: cpu_set_t = unsafe { std::mem::zeroed() };
    for &core in cores.iter().filter(|&&core| core < libc::CPU_SETSIZE as usize) {
        // SAFETY: it changes one bit of the set, which has that many.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    set
}

fn signals(numbers: &[c_int]) -> sigset_t {
    // SAFETY: a set is an array of integers, which the next call sets in any case.
    let mut set: sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is this function's own.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &number in numbers {
        // SAFETY: the same.
        unsafe { libc::sigaddset(&raw mut set, number) };
    }
    set
}

/// Returns modules that a context's zygote has not imported, each with the reason: missing ones, and those that
/// processes import themselves.
pub(super) fn left_out(context: &RawContext) -> (Vec<String>, Vec<String>) {
    // SAFETY: the text, ended by NUL, lives until the next call that changes the context.
    let text = unsafe { CStr::from_ptr(hwsp_on_behalf_left_out(context)) }.to_string_lossy().into_owned();
    let (missing, own): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('?'));
    let plain = |lines: Vec<&str>| lines.iter().map(|line| line[1..].to_owned()).collect();
    (plain(missing), plain(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    unsafe extern "C" {
        fn hwsp_spawn_layout(index: c_uint) -> usize;
    }

    #[test]
    fn structures_are_as_long_as_those_in_c() {
        let here = [
            size_of::<RawContext>(),
            size_of::<RawContextOptions>(),
            offset_of!(RawContextOptions, argv),
            offset_of!(RawContextOptions, start_ms_max),
            offset_of!(RawContextOptions, zygote_library),
            offset_of!(RawContextOptions, mask_size),
            size_of::<RawFileAction>(),
            offset_of!(RawFileAction, path),
            offset_of!(RawFileAction, mode),
            size_of::<RawProcess>(),
            offset_of!(RawProcess, mask),
            offset_of!(RawProcess, file_action_count),
            size_of::<RawLimit>(),
            size_of::<RawOptions>(),
            offset_of!(RawOptions, numa),
            offset_of!(RawOptions, cgroup),
            offset_of!(RawOptions, signal_default),
            offset_of!(RawOptions, limits),
            offset_of!(RawOptions, first),
        ];
        let here = here.into_iter().chain(super::super::on_behalf::layout()).collect::<Vec<_>>();
        // SAFETY: it reads a constant.
        let there = (0..).map(|index| unsafe { hwsp_spawn_layout(index) }).take_while(|&number| number != 0);
        assert_eq!(there.collect::<Vec<_>>(), here);
    }

    #[test]
    fn mechanisms_have_their_names() {
        let all = [Mechanism::Auto, Mechanism::Zygote, Mechanism::Vfork, Mechanism::Clone3, Mechanism::PosixSpawn];
        let names = all.into_iter().chain([Mechanism::Fork, Mechanism::Pfork]).map(Mechanism::name);
        assert_eq!(names.collect::<Vec<_>>(), ["auto", "zygote", "vfork", "clone3", "posix_spawn", "fork", "pfork"]);
    }

    #[test]
    fn processes_are_children_of_this_one() {
        let program = CString::new("sh").unwrap();
        let library = Path::new("/nonexistent/zygote.so");
        let mut context =
            Context::create(&program, Mechanism::Vfork, Vec::new(), &Process::default(), library, Stop::Load, None)
                .unwrap();
        let arguments = |text: &str| text.split('|').map(|argument| CString::new(argument).unwrap()).collect();
        let process = |number: u8| Process {
            arguments: arguments("sh|-c|exit $NUMBER"),
            variables: arguments(&format!("NUMBER={number}")),
            ..Process::default()
        };
        let started = context.spawn(&[process(3), process(4)], &Options::default()).unwrap();
        for (pid, expected) in started.into_iter().zip([3, 4]) {
            let (_, status) = rustix::process::waitpid(Some(pid.unwrap()), rustix::process::WaitOptions::empty())
                .unwrap()
                .expect("it was waited for");
            assert_eq!(status.exit_status(), Some(expected));
        }
    }
}
