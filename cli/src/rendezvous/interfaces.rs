//! The network interfaces whose names the user gave (`--interfaces`), and the sockets on them at which a node's daemon
//! listens.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::str::FromStr;

use anyhow::Result;
use headwater_overlay::{Interface, RAILS_MAX, listen_on};
use if_addrs::IfAddr;
use serde::{Deserialize, Serialize};

use super::ports::{Ports, listen, listen_by};

/// The longest name of an interface, in bytes.
const NAME_BYTES_MAX: usize = 15;

/// The name of an interface, or several by `*`, which any characters match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceName(String);

impl FromStr for InterfaceName {
    type Err = String;

    fn from_str(text: &str) -> Result<InterfaceName, String> {
        let is_plain = !text.is_empty() && !text.contains(|c: char| c == '/' || c.is_whitespace());
        match is_plain && text.len() <= NAME_BYTES_MAX {
            true => Ok(InterfaceName(text.into())),
            false => Err("write names of interfaces, as `ip address` shows them, or ib*".into()),
        }
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl InterfaceName {
    /// Returns whether an interface is meant. The loopback interface leads to no other node, and no pattern means it.
    fn means(&self, interface: &Interface) -> bool {
        self.0 == interface.name || !interface.address.is_loopback() && self.matches(&interface.name)
    }

    fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return self.0 == name };
        let Some(mut name) = name.strip_prefix(first) else { return false };
        let Some((middle, last)) = rest.rsplit_once('*').or(Some(("", rest))) else { return false };
        for part in middle.split('*').filter(|part| !part.is_empty()) {
            match name.find(part) {
                Some(at) => name = &name[at + part.len()..],
                None => return false,
            }
        }
        name.ends_with(last)
    }
}

/// Where a node's daemon listens.
#[derive(Debug)]
pub struct Listening {
    /// On each of the interfaces; without any, one socket on all addresses.
    pub listeners: Vec<TcpListener>,
    /// The interfaces that links use.
    pub interfaces: Vec<Interface>,
    /// The names that no usable interface of this node has.
    pub missing: Vec<String>,
}

impl Listening {
    /// Listens on the interfaces with these names, or on all addresses if this node has none of them.
    pub fn begin(names: &[InterfaceName], ports: Option<Ports>) -> Result<Listening> {
        let found = if names.is_empty() { Vec::new() } else { found(names, &all()) };
        let mut listening = Listening { listeners: Vec::new(), interfaces: Vec::new(), missing: Vec::new() };
        for interface in found {
            // The address may have vanished meanwhile.
            if let Ok(listener) = listen_by(ports, |port| listen_on(&interface, port)) {
                listening.listeners.push(listener);
                listening.interfaces.push(interface);
            }
        }
        let is_missing = |name: &&InterfaceName| !listening.interfaces.iter().any(|one| name.means(one));
        listening.missing = names.iter().filter(is_missing).map(InterfaceName::to_string).collect();
        if listening.listeners.is_empty() {
            listening.listeners.push(listen(ports)?);
        }
        Ok(listening)
    }

    /// Returns the addresses on the interfaces.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let on_interfaces = self.interfaces.iter().zip(&self.listeners);
        on_interfaces.filter_map(|(_, listener)| listener.local_addr().ok()).collect()
    }
}

/// Returns all interfaces of this machine, with one address for each: IPv4, if it has that.
fn all() -> Vec<Interface> {
    let mut all: Vec<Interface> = Vec::new();
    let mut addresses = if_addrs::get_if_addrs().unwrap_or_default();
    addresses.retain(|one| !(one.is_link_local() && one.ip().is_ipv6()));
    addresses.sort_by_key(|one| (one.ip().is_ipv6(), one.name.clone()));
    for if_addrs::Interface { name, addr, .. } in addresses {
        let prefix_bits = match &addr {
            IfAddr::V4(address) => address.prefixlen,
            IfAddr::V6(address) => address.prefixlen,
        };
        if all.iter().all(|known| known.name != name) {
            all.push(Interface { name, address: addr.ip(), prefix_bits });
        }
    }
    all
}

/// Returns the interfaces of these names, in the order of the names and then by their own.
fn found(names: &[InterfaceName], all: &[Interface]) -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    for name in names {
        let mut matching: Vec<&Interface> = all.iter().filter(|one| name.means(one)).collect();
        matching.sort_by_key(|one| (one.name.len(), &one.name));
        let further = matching.into_iter().filter(|one| !found.contains(one)).cloned().collect::<Vec<_>>();
        found.extend(further);
    }
    found.truncate(RAILS_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<InterfaceName> {
        text.split(',').map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn patterns_match_names() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(names(pattern)[0].matches(name), expected, "{pattern} {name}");
        };
        check("ib0", "ib0", true);
        check("ib0", "ib01", false);
        check("ib*", "ib0", true);
        check("ib*", "eth0", false);
        check("*", "eth0", true);
        check("ibp*s0", "ibp65s0", true);
        check("ibp*s0", "ibp65s1", false);
        check("*p*s*", "enp3s0f1", true);
        check("*p*s*f1", "enp3s0f1", true);
        check("*s*p*", "enp3s0", false);
        check("a*a", "a", false);
    }

    #[test]
    fn names_are_checked() {
        for wrong in ["", "a b", "a/b", "sixteen-letters-"] {
            assert!(wrong.parse::<InterfaceName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn interfaces_are_in_the_order_of_the_names() {
        let interface = |name: &str| Interface { name: name.into(), address: [10, 0, 0, 1].into(), prefix_bits: 24 };
        let all: Vec<Interface> = ["eth0", "ib1", "ib0", "ib10"].map(interface).into();
        let check = |text: &str, expected: &str| {
            let found = found(&names(text), &all);
            assert_eq!(found.iter().map(|one| &*one.name).collect::<Vec<_>>().join(","), expected);
        };
        check("ib*", "ib0,ib1,ib10");
        check("eth0,ib*", "eth0,ib0,ib1,ib10");
        check("ib1,ib*,ib1", "ib1,ib0,ib10");
        check("en*", "");
        let lo = Interface { name: "lo".into(), address: [127, 0, 0, 1].into(), prefix_bits: 8 };
        assert_eq!(found(&names("*,lo*"), std::slice::from_ref(&lo)), []);
        assert_eq!(found(&names("lo"), std::slice::from_ref(&lo)), [lo]);
    }

    #[test]
    fn a_node_without_the_interfaces_listens_on_all_addresses() {
        let some = Listening::begin(&names("lo,no-such-card"), None).unwrap();
        let local = some.listeners[0].local_addr().unwrap();
        assert_eq!((some.listeners.len(), local.ip().is_loopback()), (1, true));
        assert_eq!((&*some.interfaces[0].name, &some.missing[..]), ("lo", &["no-such-card".to_owned()][..]));
        let none = Listening::begin(&names("no-such-card"), None).unwrap();
        assert!(none.listeners[0].local_addr().unwrap().ip().is_unspecified() && none.interfaces.is_empty());
        assert!(Listening::begin(&[], None).unwrap().missing.is_empty());
    }
}
