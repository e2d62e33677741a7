//! Records that are appended in one piece.
//!
//! The kernel sends a write that crosses the boundary of a page in parts, with the offsets that it knows. On a file that
//! others append to, too, each part would be a record of its own, with another node's in between. So the first part is
//! written together with the rest of what its thread passes to the system call, and the other parts are answered when
//! they come. Where the thread's memory can't be read, as where it may not be traced, each part is written by itself.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use headwater_fuse::NodeId;

/// The least distance of boundaries: the smallest page.
const BOUNDARY: u64 = 4096;
/// The most bytes of a record that is written in one piece.
const RECORD_BYTES_MAX: u64 = 4 << 20;
/// The most parts of a `writev` that are read.
const SEGMENTS_MAX: u64 = 64;
/// Threads whose next parts are awaited at once, some in vain.
const THREADS_MAX: usize = 4096;
/// How long a part is awaited. None comes if its thread is killed, and another thread may get its number.
const PART_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a segment's address and length.
const SEGMENT_BYTES: usize = 16;

/// Parts of records that are written already, by thread.
#[derive(Debug, Default)]
pub(crate) struct Appended(Mutex<HashMap<u32, Part>>);

#[derive(Clone, Copy, Debug)]
struct Part {
    node: NodeId,
    /// Where the kernel believes that it begins.
    offset: u64,
    bytes: u64,
    noted: Instant,
}

impl Appended {
    /// Returns how many bytes of this part were written with an earlier one; `None`: it is no such part.
    pub(super) fn take(&self, thread: u32, node: NodeId, offset: u64, bytes: u64) -> Option<u64> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_awaited =
            |part: &Part| (part.node, part.offset) == (node, offset) && part.noted.elapsed() < PART_TIMEOUT;
        let part = parts.remove(&thread).filter(is_awaited)?;
        let taken = bytes.min(part.bytes);
        if part.bytes > taken && taken == bytes {
            parts.insert(thread, Part { offset: offset + taken, bytes: part.bytes - taken, ..part });
        }
        Some(taken)
    }

    /// Notes the bytes behind `offset` that were written before their part has come.
    pub(super) fn note(&self, thread: u32, node: NodeId, offset: u64, bytes: u64) {
        let part = Part { node, offset, bytes, noted: Instant::now() };
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if parts.len() >= THREADS_MAX {
            parts.retain(|_, part| part.noted.elapsed() < PART_TIMEOUT);
        }
        parts.insert(thread, part);
    }

    /// Returns the rest of the record that begins with `data`, if the kernel will send it.
    pub(super) fn rest(thread: u32, offset: u64, data: &[u8]) -> Option<Vec<u8>> {
        if !(offset + data.len() as u64).is_multiple_of(BOUNDARY) {
            return None;
        }
        let call = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
        let memory = File::open(format!("/proc/{thread}/mem")).ok()?;
        rest_of(&memory, &segments(&call, &memory)?, data)
    }
}

/// Returns what a system call of proc_pid_syscall(5) writes, as addresses and lengths.
fn segments(call: &str, memory: &File) -> Option<Vec<(u64, u64)>> {
    let mut fields = call.split_whitespace();
    let number: i64 = fields.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let (_, address, length) = (argument()?, argument()?, argument()?);
    match number {
        libc::SYS_write | libc::SYS_pwrite64 => Some(vec![(address, length)]),
        libc::SYS_writev if length <= SEGMENTS_MAX => {
            let mut bytes = vec![0; length as usize * SEGMENT_BYTES];
            memory.read_exact_at(&mut bytes, address).ok()?;
            let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
            Some(bytes.chunks_exact(SEGMENT_BYTES).map(|pair| (word(&pair[..8]), word(&pair[8..]))).collect())
        }
        _ => None,
    }
}

/// Returns the rest of what these segments have, if it begins with `data`.
fn rest_of(memory: &File, segments: &[(u64, u64)], data: &[u8]) -> Option<Vec<u8>> {
    let bytes = segments.iter().try_fold(0_u64, |sum, (_, length)| sum.checked_add(*length))?;
    if bytes > RECORD_BYTES_MAX || bytes <= data.len() as u64 {
        return None;
    }
    let mut record = vec![0; bytes as usize];
    let mut filled = 0;
    for &(address, length) in segments {
        let end = filled + length as usize;
        memory.read_exact_at(&mut record[filled..end], address).ok()?;
        filled = end;
    }
    record.starts_with(data).then(|| record.split_off(data.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_come_are_answered_once() {
        let appended = Appended::default();
        appended.note(7, NodeId(1), 4096, 5000);
        assert_eq!(appended.take(8, NodeId(1), 4096, 10), None, "another thread");
        assert_eq!(appended.take(7, NodeId(1), 4096, 4096), Some(4096));
        assert_eq!(appended.take(7, NodeId(1), 8192, 1000), Some(904), "no more was written");
        assert_eq!(appended.take(7, NodeId(1), 9096, 96), None);
        appended.note(7, NodeId(1), 4096, 100);
        assert_eq!(appended.take(7, NodeId(2), 4096, 100), None, "another file");
        assert_eq!(appended.take(7, NodeId(1), 4096, 100), None, "nor any later");
    }

    #[test]
    fn the_rest_of_a_record_is_read_from_its_writer() {
        let memory = File::open("/proc/self/mem").unwrap();
        let text = b"0123456789";
        let at = text.as_ptr() as u64;
        let call = |number: i64, address: u64, length: u64| format!("{number} 0x1 {address:#x} {length:#x} 0x0\n");
        let rest = |call: &str, data: &[u8]| rest_of(&memory, &segments(call, &memory)?, data);
        assert_eq!(rest(&call(libc::SYS_write, at, 10), b"0123").as_deref(), Some(&b"456789"[..]));
        assert_eq!(rest(&call(libc::SYS_write, at, 10), b"4567"), None, "it is no first part");
        assert_eq!(rest(&call(libc::SYS_write, at, 10), text), None, "it is all");
        assert_eq!(rest(&call(libc::SYS_read, at, 10), b"0123"), None);
        assert_eq!(rest(&call(libc::SYS_write, at, u64::MAX), b"0123"), None);
        assert_eq!(rest("running\n", b"0123"), None);
        let vector = [at + 2, 3, at, 2];
        let at = vector.as_ptr() as u64;
        assert_eq!(rest(&call(libc::SYS_writev, at, 2), b"23").as_deref(), Some(&b"401"[..]));
    }
}
