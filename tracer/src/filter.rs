//! The seccomp filter that stops calls about files.

use std::io;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_TRACE, c_long,
    sock_filter,
};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Calls that always stop, the most frequent first.
const ALWAYS: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_openat2,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_ptrace,
    libc::SYS_clone3,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
];
/// Offsets in `struct seccomp_data`; arguments are of eight bytes, the lower half first.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;
/// A descriptor of no file.
const NO_FILE: u32 = u32::MAX;
/// The value that comes with this filter's stops; a program's own filter is unlikely to have it.
pub(crate) const MARK: u16 = 0x5157;

/// Returns the program of the filter.
fn program() -> Vec<sock_filter> {
    let trace = statement(BPF_RET | BPF_K, SECCOMP_RET_TRACE | u32::from(MARK));
    let allow = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    let mut program = vec![load(ARCH), jump(BPF_JEQ, ARCHITECTURE, 1, 0), allow, load(NUMBER)];
    for &number in ALWAYS {
        program.extend([jump(BPF_JEQ, number as u32, 0, 1), trace]);
    }
    let condition = |number: c_long, argument: u32, test: sock_filter| {
        // The test jumps to the call that goes on, or to the one that stops.
        [jump(BPF_JEQ, number as u32, 0, 4), load(ARGUMENTS + 8 * argument), test, trace, allow]
    };
    program.extend(condition(libc::SYS_mmap, 4, jump(BPF_JEQ, NO_FILE, 1, 0)));
    program.extend(condition(libc::SYS_newfstatat, 3, jump(BPF_JSET, libc::AT_EMPTY_PATH as u32, 1, 0)));
    program.extend(condition(libc::SYS_statx, 2, jump(BPF_JSET, libc::AT_EMPTY_PATH as u32, 1, 0)));
    program.extend(condition(libc::SYS_prlimit64, 1, jump(BPF_JEQ, libc::RLIMIT_STACK, 0, 1)));
    program.extend(condition(libc::SYS_clone, 0, jump(BPF_JSET, libc::CLONE_UNTRACED as u32, 0, 1)));
    program.extend(condition(libc::SYS_prctl, 0, jump(BPF_JEQ, libc::PR_SET_SECCOMP as u32, 0, 1)));
    program.extend(condition(libc::SYS_seccomp, 0, jump(BPF_JEQ, libc::SECCOMP_SET_MODE_STRICT, 0, 1)));
    program.push(allow);
    program
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn jump(test: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | test | BPF_K) as u16, jt, jf, k }
}

/// Installs the filter in this process, which needs the right to do so, or has given up that programs which it executes
/// gain privileges.
pub(crate) fn install() -> io::Result<()> {
    let mut program = program();
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
