//! Options of `headwater metrics`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueHint};

/// What `headwater metrics --help` shows at the end.
pub const METRICS_HELP: &str = "\
Examples:
  headwater metrics                                     # once, for example for a textfile collector
  headwater metrics --listen                            # at http://localhost:7448/metrics
  headwater metrics --listen 10.1.2.3:9100

All sessions and site exports of this user on this machine are shown. The labels session, node, rank and role name \
the daemon; the session of a site export is its directory. Counters begin at zero when a daemon starts. \
--listen runs in the foreground; see headwater-metrics.service. It serves each host that reaches the address, \
without encryption.";

/// The default port of `--listen`, which is unassigned.
const PORT_DEFAULT: u16 = 7448;
const LISTEN_DEFAULT: &str = "localhost";

/// Options of `headwater metrics`.
#[derive(Clone, Debug, Args)]
pub struct MetricsOptions {
    /// Serve them over HTTP at this address, port, or both [default: localhost:7448]
    #[arg(long, value_name = "ADDRESS", env = "HEADWATER_METRICS_LISTEN", num_args = 0..=1,
          default_missing_value = LISTEN_DEFAULT, value_parser = parse_address)]
    pub listen: Option<SocketAddr>,

    /// Where the nodes' stores are [default: wherever `headwater run` puts them by itself]
    #[arg(long, value_name = "DIR", env = "HEADWATER_STORE", value_hint = ValueHint::DirPath)]
    pub store: Option<PathBuf>,
}

/// Reads an address, a port, or both.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    parse_address_with(text, PORT_DEFAULT)
}

/// The same, with another default of the port.
pub fn parse_address_with(text: &str, port_default: u16) -> Result<SocketAddr, String> {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let text = text.trim();
    if text == LISTEN_DEFAULT {
        return Ok(SocketAddr::new(local, port_default));
    }
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    let address = text.parse::<SocketAddr>().ok();
    let address = address.or_else(|| Some(SocketAddr::new(text.parse().ok()?, port_default)));
    let address = address.or_else(|| Some(SocketAddr::new(local, port.parse().ok()?)));
    address.ok_or_else(|| {
        format!("write an address such as 127.0.0.1:{port_default}, [::1]:{port_default}, 10.1.2.3 or {port_default}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_defaults() {
        let check = |text: &str, expected: &str| assert_eq!(parse_address(text).unwrap().to_string(), expected);
        check("localhost", "127.0.0.1:7448");
        check("localhost:80", "127.0.0.1:80");
        check("9100", "127.0.0.1:9100");
        check("10.1.2.3", "10.1.2.3:7448");
        check("10.1.2.3:5", "10.1.2.3:5");
        check("::1", "[::1]:7448");
        check("[::1]:5", "[::1]:5");
        for wrong in ["", "io01:80", "70000", "10.1.2.3:", "[::1]"] {
            assert!(parse_address(wrong).unwrap_err().contains("127.0.0.1:7448"), "{wrong}");
        }
    }
}
