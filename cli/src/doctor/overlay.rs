//! Checks for the links between nodes.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use headwater_figures::text::size;
use rustix::process::{Resource, getrlimit};

use super::check::Check;
use crate::topology::transport::find_carrier;

/// The smallest sufficient buffer of a connection, in bytes: 100 Gbit/s for 80 µs.
const BUFFER_BYTES_MIN: u64 = 1 << 20;
/// Descriptors of a daemon besides links: files, sockets and its clients' connections.
const OTHER_DESCRIPTORS: u64 = 1024;
/// Links of a node in the widest default trees, twice: after deaths, further nodes turn to it.
const LINKS_MIN: u64 = 64;

/// Checks how links are encrypted.
pub fn encryption() -> Check {
    const NAME: &str = "encryption";
    if headwater_daemon::has_aes() {
        return Check::ok(NAME, "AES-GCM, by the processor");
    }
    let next = "pass the host's processor (aes and pclmulqdq, on Arm aes and pmull) on to this virtual machine; \
                otherwise expect links to be several times as slow";
    Check::warning(NAME, "ChaCha20-Poly1305: the processor lacks AES", next)
}

/// Checks the limits of connections' buffers.
pub fn socket_buffers() -> Check {
    let most = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
        text.split_ascii_whitespace().nth(2)?.parse().ok()
    };
    buffers(most("tcp_wmem"), most("tcp_rmem"))
}

/// Checks these limits of automatic buffers, in bytes.
fn buffers(send: Option<u64>, receive: Option<u64>) -> Check {
    const NAME: &str = "socket buffers";
    let (Some(send), Some(receive)) = (send, receive) else {
        return Check::ok(NAME, "/proc/sys/net/ipv4 can't be read");
    };
    let found = format!("up to {} to send, {} to receive", size(send), size(receive));
    if send.min(receive) >= BUFFER_BYTES_MIN {
        return Check::ok(NAME, found);
    }
    let next = "as root, `sysctl -w net.ipv4.tcp_wmem='4096 65536 4194304' net.ipv4.tcp_rmem='4096 131072 6291456'`";
    Check::warning(NAME, format!("{found}, too few for a fast network"), next)
}

/// Checks whether `--transport libfabric` works, and with which providers.
pub fn libfabric() -> Check {
    const NAME: &str = "libfabric";
    let Ok(carrier) = find_carrier() else {
        return Check::ok(NAME, "not built in; links use TCP");
    };
    let listed = Command::new(&carrier).arg("--list").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let providers = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let providers: BTreeSet<&str> = providers.lines().collect();
    if providers.is_empty() {
        let next = format!("`ldd {0}` and `FI_LOG_LEVEL=warn {0} --list` show what is missing", carrier.display());
        return Check::warning(NAME, "no provider can be used; links use TCP", next);
    }
    let providers: Vec<&str> = providers.into_iter().collect();
    Check::ok(NAME, format!("for --transport libfabric:PROVIDER: {}", providers.join(", ")))
}

/// Checks how many links a node can have.
pub fn links() -> Check {
    // Daemons raise the soft limit to the hard one.
    links_of(getrlimit(Resource::Nofile).maximum)
}

fn links_of(descriptors: Option<u64>) -> Check {
    const NAME: &str = "links";
    let Some(descriptors) = descriptors else { return Check::ok(NAME, "no limit") };
    let links = descriptors.saturating_sub(OTHER_DESCRIPTORS);
    let found = format!("descriptors for {links} from a node");
    if links >= LINKS_MIN {
        return Check::ok(NAME, found);
    }
    let next = "raise the hard limit (`ulimit -n`, /etc/security/limits.conf); `headwater topology` shows how many \
                links nodes have";
    Check::warning(NAME, found, next)
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckResult;
    use super::*;

    #[test]
    fn small_buffers_are_worth_a_warning() {
        let check = |send, receive, expected| assert_eq!(buffers(send, receive).verdict, expected);
        check(Some(4 << 20), Some(6 << 20), CheckResult::Ok);
        check(Some(212_992), Some(6 << 20), CheckResult::Warning);
        check(Some(4 << 20), Some(87_380), CheckResult::Warning);
        check(None, Some(1), CheckResult::Ok);
    }

    #[test]
    fn few_descriptors_are_few_links() {
        assert_eq!(links_of(None).verdict, CheckResult::Ok);
        assert_eq!(links_of(Some(4096)).found, "descriptors for 3072 from a node");
        for few in [0, 1024, 1030] {
            assert!(links_of(Some(few)).next.unwrap().contains("ulimit -n"), "{few}");
        }
    }
}
