//! Which memory domain a thread's new pages come from.

use std::io;

use super::domains::DOMAINS_MAX;

/// Bits of the mask that the kernel reads: one fewer than this number.
const MASK_BITS: usize = DOMAINS_MAX as usize + 1;

/// Makes the calling thread's new pages, those of files in memory too, come from this domain while it has any. Threads
/// that it starts inherit this.
///
/// A binding policy would cause processes to be killed if one domain runs out of memory.
///
/// # Errors
/// The kernel has no such domain, or refuses the policy.
pub(crate) fn prefer(domain: u32) -> io::Result<()> {
    let mask = [1u64 << domain, 0];
    // SAFETY: the kernel reads `MASK_BITS` bits of the mask, which has more, and writes nothing here.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_PREFERRED, mask.as_ptr(), MASK_BITS) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_domain_that_is_there_is_preferred() {
        std::thread::spawn(|| match prefer(0) {
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => {
                println!("skipped: a memory policy can't be set here: {error}");
            }
            result => {
                result.unwrap();
                assert_eq!(prefer(DOMAINS_MAX - 1).unwrap_err().raw_os_error(), Some(libc::EINVAL));
            }
        })
        .join()
        .unwrap();
    }
}
