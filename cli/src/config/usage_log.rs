//! The key of the usage log, which only the site's file may have.

use std::path::PathBuf;

/// The key.
pub const KEY: &str = "usage-log";
/// The value that stands for the system's log.
const SYSLOG: &str = "syslog";
/// The socket of the system's log.
const SYSLOG_SOCKET: &str = "/dev/log";

/// Parses a value of the key.
pub fn parse(text: &str) -> Result<PathBuf, String> {
    match text {
        SYSLOG => Ok(SYSLOG_SOCKET.into()),
        path if path.starts_with('/') => Ok(path.into()),
        _ => Err(format!("write {SYSLOG}, or the absolute path of a file or socket")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_name_a_destination() {
        assert_eq!(parse("syslog").unwrap(), PathBuf::from("/dev/log"));
        assert_eq!(parse("/var/log/u.jsonl").unwrap(), PathBuf::from("/var/log/u.jsonl"));
        assert!(parse("file").unwrap_err().starts_with("write syslog, or"));
    }
}
