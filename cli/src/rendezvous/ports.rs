//! The ports at which front ends and daemons listen (`--ports`).

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::str::FromStr;

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

/// Consecutive ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Ports, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ports = first.parse().ok().zip(last.parse().ok()).map(|(first, last)| Ports { first, last });
        ports
            .filter(|ports| 0 < ports.first && ports.first <= ports.last)
            .ok_or_else(|| "write ports as 7000-7099".into())
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Listens at the first of these ports that is free, or at any port, on all addresses.
///
/// # Errors
/// None is free, or there is no network.
pub fn listen(ports: Option<Ports>) -> Result<TcpListener> {
    listen_by(ports, |port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// The same with `bind`, which listens at one port; zero is any.
pub fn listen_by(ports: Option<Ports>, bind: impl Fn(u16) -> io::Result<TcpListener>) -> Result<TcpListener> {
    let any = Ports { first: 0, last: 0 };
    let Ports { first, last } = ports.unwrap_or(any);
    let mut failure = io::Error::from(io::ErrorKind::AddrInUse);
    for port in first..=last {
        match bind(port) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(match ports {
        Some(ports) => anyhow!("none of the ports {ports} can be listened on: {failure}. Name others with --ports"),
        None => anyhow!("no port can be listened on: {failure}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_free_port_is_taken() {
        let taken = listen(None).unwrap();
        let first = taken.local_addr().unwrap().port();
        let ports = Ports { first, last: first.saturating_add(20) };
        let next = listen(Some(ports)).unwrap().local_addr().unwrap().port();
        assert!((first + 1..=ports.last).contains(&next));
        let only = Ports { first, last: first };
        assert!(listen(Some(only)).unwrap_err().to_string().contains("--ports"));
    }

    #[test]
    fn ports_are_parsed() {
        assert_eq!("7000-7099".parse(), Ok(Ports { first: 7000, last: 7099 }));
        assert_eq!("7000".parse(), Ok(Ports { first: 7000, last: 7000 }));
        for text in ["", "0-5", "7-3", "a-b", "1-70000"] {
            assert!(text.parse::<Ports>().is_err(), "{text}");
        }
    }
}
