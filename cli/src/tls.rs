//! How much static thread-local storage an audited program needs.

/// glibc's own default.
const GLIBC_DEFAULT: u64 = 512;
/// What start-up libraries may need.
const FLOOR: u64 = 4096;

/// Bytes for glibc's tunable `optional_static_tls`.
pub fn optional_static_tls() -> u64 {
    GLIBC_DEFAULT + FLOOR
}
