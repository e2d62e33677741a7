//! The result of an operation, as one line.

use rustix::io::Errno;

/// Returns a result as one line.
pub fn line(result: Result<String, Errno>) -> String {
    result.unwrap_or_else(failure)
}

/// Returns an error as one line.
pub fn failure(error: Errno) -> String {
    format!("error {}", error.raw_os_error())
}
