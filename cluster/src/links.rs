//! The nodes' links: how fast they are, what delays them, and the lines for `ip` and `tc`.
//!
//! A link is a pair of virtual Ethernet devices: `eth0` in the node, and in the switch's namespace a
//! port of the bridge that has the node's name; `eth1` and the port `node001-1` for a second interface, and so on. A limit holds in each direction, by a token bucket at
//! each end, which lets [`Rate::burst_bytes`] through at once. A delay is added where a node sends, by the
//! kernel or, where that can't, by [`crate::wires`], which take the pair's place.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::run::{self, inside};
use crate::wires::{self, Wires};
use crate::{Error, Node};

/// How long a packet may wait for tokens before the link drops it.
const QUEUE_MS: u64 = 50;
/// The bucket holds tokens for this time.
const BURST_MS: u64 = 5;
/// The kernel's largest packet, with headers. The kernel would split packets that exceed the bucket, at a high cost.
const BURST_BYTES_MIN: u64 = 72 << 10;
const BURST_BYTES_MAX: u64 = 1 << 20;
/// A bucket of the largest packet that a device takes could never be emptied faster than this.
const RATE_MIN_BITS: u64 = 100_000;
const RATE_MAX_BITS: u64 = 100_000_000_000;
const DELAY_MAX_US: u64 = 10_000_000;
/// The reason against wires in a detached cluster.
const OUTLIVES: &str = "it would end with this command, and the cluster does not";

/// The bits that a link carries in a second, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    bits_per_second: u64,
}

impl Rate {
    /// Returns the bytes that a link carries in a second.
    pub fn bytes_per_second(self) -> u64 {
        self.bits_per_second / 8
    }

    /// Returns the bytes that pass at once after the link was idle.
    pub fn burst_bytes(self) -> u64 {
        (self.bytes_per_second() * BURST_MS / 1000).clamp(BURST_BYTES_MIN, BURST_BYTES_MAX)
    }
}

impl FromStr for Rate {
    type Err = Error;

    /// Parses a number with `kbit`, `mbit` or `gbit`, which are powers of 1000, as in `tc`.
    fn from_str(text: &str) -> Result<Rate, Error> {
        let bits = scaled(text, &[("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)]);
        match bits {
            Some(bits_per_second) if (RATE_MIN_BITS..=RATE_MAX_BITS).contains(&bits_per_second) => {
                Ok(Rate { bits_per_second })
            }
            Some(_) => Err(invalid("rate", text, "from 100kbit to 100gbit")),
            None => Err(invalid("rate", text, "a number with kbit, mbit or gbit, as 200mbit")),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        unscaled(formatter, self.bits_per_second, &[("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000)])
    }
}

/// The added delay of a packet from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    us: u64,
}

impl From<Delay> for Duration {
    fn from(delay: Delay) -> Duration {
        Duration::from_micros(delay.us)
    }
}

impl FromStr for Delay {
    type Err = Error;

    /// Parses a number with `us`, `ms` or `s`.
    fn from_str(text: &str) -> Result<Delay, Error> {
        match scaled(text, &[("us", 1), ("ms", 1_000), ("s", 1_000_000)]) {
            Some(us) if (1..=DELAY_MAX_US).contains(&us) => Ok(Delay { us }),
            Some(_) => Err(invalid("delay", text, "from 1us to 10s")),
            None => Err(invalid("delay", text, "a number with us, ms or s, as 1ms")),
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        unscaled(formatter, self.us, &[("s", 1_000_000), ("ms", 1_000), ("us", 1)])
    }
}

fn invalid(what: &'static str, value: &str, right: &str) -> Error {
    Error::Invalid { what, value: value.to_owned(), problem: format!("expected {right}") }
}

/// Parses a number with a unit; returns it in the smallest unit.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn unscaled(formatter: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let (name, factor) = units.iter().find(|(_, factor)| value.is_multiple_of(*factor)).expect("the last unit is 1");
    write!(formatter, "{}{name}", value / factor)
}

/// How links are slowed down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shaping {
    rate: Option<(Rate, Bucket)>,
    /// The delay by the kernel.
    delay: Option<Delay>,
    /// The delay by wires.
    wires: Option<Delay>,
}

/// A token bucket of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bucket {
    /// `sch_tbf`, a token bucket.
    Tbf,
    /// `sch_htb` with one class.
    Htb,
}

impl Shaping {
    /// Probes the kernel, in a network namespace of one command. Checks whether wires are possible, for a cluster that
    /// does not outlive this process.
    pub fn find(rate: Option<Rate>, delay: Option<Delay>, outlives: bool) -> Result<Shaping, Error> {
        let rate = rate.map(|rate| Ok::<_, Error>((rate, find_bucket(rate)?))).transpose()?;
        let by_kernel = Shaping { rate, delay, wires: None };
        if delay.is_none() {
            return Ok(by_kernel);
        }
        let Err(output) = try_out(&Shaping { rate: None, ..by_kernel }.batch("lo", true))? else {
            return Ok(by_kernel);
        };
        let wires = if outlives { Err(OUTLIVES.to_owned()) } else { wires::check().map_err(|error| error.to_string()) };
        match wires {
            Ok(()) => Ok(Shaping { rate, delay: None, wires: delay }),
            Err(wires) => Err(Error::Delay { output, wires }),
        }
    }

    /// Returns lines for `tc -batch` that slow down the packets that `device` sends; with a delay only if `from_node`.
    pub fn batch(&self, device: &str, from_node: bool) -> String {
        let mut batch = String::new();
        let mut parent = "root".to_owned();
        if let Some((rate, bucket)) = self.rate {
            let (bits, burst) = (rate.bits_per_second, rate.burst_bytes());
            batch += &match bucket {
                Bucket::Tbf => format!(
                    "qdisc add dev {device} root handle 1: tbf rate {bits}bit burst {burst}b latency {QUEUE_MS}ms\n"
                ),
                Bucket::Htb => format!(
                    "qdisc add dev {device} root handle 1: htb default 1\n\
                     class add dev {device} parent 1: classid 1:1 htb rate {bits}bit burst {burst}b\n"
                ),
            };
            parent = "parent 1:1".to_owned();
        }
        if let Some(delay) = self.delay.filter(|_| from_node) {
            batch += &format!("qdisc add dev {device} {parent} handle 2: netem delay {}us limit 100000\n", delay.us);
        }
        batch
    }
}

fn find_bucket(rate: Rate) -> Result<Bucket, Error> {
    let mut complaint = String::new();
    for bucket in [Bucket::Tbf, Bucket::Htb] {
        match try_out(&Shaping { rate: Some((rate, bucket)), ..Shaping::default() }.batch("lo", true))? {
            Ok(()) => return Ok(bucket),
            Err(output) => complaint = output,
        }
    }
    let (module, config) = ("sch_tbf", "CONFIG_NET_SCH_TBF");
    Err(Error::Kernel { what: "limit a link's rate", module, config, option: "--rate", output: complaint })
}

/// Runs these lines as a trial; returns the kernel's complaint.
fn try_out(batch: &str) -> Result<Result<(), String>, Error> {
    run::with_input("unshare", &["--net", "--", "tc", "-batch", "-"], batch)
}

/// Makes the bridge, and the link of each node; `switch` is the PID of the process that holds the
/// bridge's namespace. The links live as long as the returned wires.
pub fn make(switch: u32, nodes: &[Node], shaping: &Shaping) -> Result<Option<Wires>, Error> {
    let wires = shaping.wires.map(|delay| lay(switch, nodes, delay)).transpose()?;
    let mut devices = "link set lo up\n\
                       link add bridge type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n\
                       link set bridge up\n"
        .to_owned();
    let mut queues = String::new();
    for (node, number) in interfaces(nodes) {
        let (port, end, pid) = (node.port(number), Node::interface(number), node.holder.pid);
        devices += &match wires {
            Some(_) => format!("link set {} netns {pid} name {end}\n", wires::end_of(&port)),
            None => format!("link add {port} type veth peer name {end} netns {pid}\n"),
        };
        devices += &format!("link set {port} master bridge\nlink set {port} up\n");
        queues += &shaping.batch(&port, false);
    }
    inside(switch, "the switch", "ip", &devices)?;
    inside(switch, "the switch", "tc", &queues)?;
    for node in nodes {
        let own = 0..node.interfaces;
        let devices: String = own.clone().map(|number| device(node, number, nodes)).collect();
        let queues: String = own.map(|number| shaping.batch(&Node::interface(number), true)).collect();
        inside(node.holder.pid, &node.name, "ip", &devices)?;
        inside(node.holder.pid, &node.name, "tc", &queues)?;
    }
    Ok(wires)
}

/// Returns the interfaces of all nodes: each with its node and its number.
fn interfaces(nodes: &[Node]) -> impl Iterator<Item = (&Node, usize)> {
    nodes.iter().flat_map(|node| (0..node.interfaces).map(move |number| (node, number)))
}

/// Returns lines for `ip -batch` that set one of a node's devices up, with all other nodes' hardware addresses. The
/// kernel's limit of dynamic entries is 1,024 for all namespaces, and 64 nodes with 18 peers each need more.
fn device(node: &Node, number: usize, nodes: &[Node]) -> String {
    let (address, own) = (node.address_on(number), node.hardware_address(number));
    let device = Node::interface(number);
    let mut lines =
        format!("link set lo up\nlink set {device} address {own} up\naddress add {address}/16 dev {device}\n");
    for other in nodes.iter().filter(|other| other.address != node.address) {
        let (address, hardware_address) = (other.address_on(number), other.hardware_address(number));
        lines += &format!("neigh add {address} lladdr {hardware_address} dev {device} nud permanent\n");
    }
    lines
}

/// Makes the wires. All their devices are in the switch's network at first.
fn lay(switch: u32, nodes: &[Node], delay: Delay) -> Result<Wires, Error> {
    let ports: Vec<String> = interfaces(nodes).map(|(node, number)| node.port(number)).collect();
    let devices = wires::make(switch, ports.iter().map(String::as_str));
    devices
        .and_then(|devices| Wires::begin(devices, delay.into()))
        .map_err(|error| Error::Step { step: "the nodes' wires".to_owned(), output: error.to_string() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check_rate(text: &str, bytes_per_second: Option<u64>) {
        assert_eq!(text.parse::<Rate>().ok().map(Rate::bytes_per_second), bytes_per_second, "{text}");
    }

    #[test]
    fn rates() {
        check_rate("200mbit", Some(25_000_000));
        check_rate("1gbit", Some(125_000_000));
        check_rate("100kbit", Some(12_500));
        for wrong in ["", "mbit", "200", "200mb", "-1mbit", "1.5gbit", "99kbit", "101gbit", "99999999999999999999gbit"]
        {
            check_rate(wrong, None);
        }
    }

    #[test]
    fn delays() {
        assert_eq!("1ms".parse::<Delay>().unwrap().us, 1000);
        assert_eq!("2s".parse::<Delay>().unwrap().us, 2_000_000);
        for wrong in ["", "1", "0us", "11s", "1m"] {
            assert!(wrong.parse::<Delay>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn formatted_values_are_parsed_back(bits in RATE_MIN_BITS / 1000..=RATE_MAX_BITS / 1000, us in 1..=DELAY_MAX_US) {
            let (rate, delay) = (Rate { bits_per_second: bits * 1000 }, Delay { us });
            prop_assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
            prop_assert_eq!(delay.to_string().parse::<Delay>().unwrap(), delay);
        }
    }

    #[test]
    fn bursts_are_bounded() {
        for (rate, burst) in [("100kbit", 72 << 10), ("200mbit", 125_000), ("100gbit", 1 << 20)] {
            assert_eq!(rate.parse::<Rate>().unwrap().burst_bytes(), burst, "{rate}");
        }
    }

    #[test]
    fn a_delay_lies_behind_the_bucket_and_only_where_a_node_sends() {
        let rate = Some(("8mbit".parse().unwrap(), Bucket::Tbf));
        let both = Shaping { rate, delay: Some(Delay { us: 500 }), wires: None };
        assert_eq!(
            both.batch("eth0", true),
            "qdisc add dev eth0 root handle 1: tbf rate 8000000bit burst 73728b latency 50ms\n\
             qdisc add dev eth0 parent 1:1 handle 2: netem delay 500us limit 100000\n"
        );
        assert_eq!(both.batch("p", false).lines().count(), 1);
        let delay = Shaping { rate: None, ..both };
        assert_eq!(delay.batch("eth0", true), "qdisc add dev eth0 root handle 2: netem delay 500us limit 100000\n");
        assert_eq!(Shaping::default().batch("eth0", true), "");
        let htb = Shaping { rate: Some(("8mbit".parse().unwrap(), Bucket::Htb)), ..Shaping::default() };
        assert_eq!(htb.batch("p", false).lines().count(), 2);
    }
}
