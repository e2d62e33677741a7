//! The transport of links (`--transport`): TCP, or libfabric where both ends support it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use headwater_daemon::Fabric;

use crate::installed;
use crate::message::log;

/// The program that carries links over libfabric.
const CARRIER: &str = "headwater-fabric";

/// A transport of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// libfabric, by this provider or the first one found; TCP where it fails.
    Libfabric(Option<String>),
}

impl Transport {
    /// Returns the daemons' configuration. Warns if the carrier is not installed.
    pub fn fabric(&self) -> Option<Fabric> {
        let Transport::Libfabric(provider) = self else { return None };
        match find_carrier() {
            Ok(carrier) => Some(Fabric { carrier, provider: provider.clone() }),
            Err(error) => {
                log(format_args!("warning: {error:#}. Build it on a machine with libfabric's headers. Nodes use TCP"));
                None
            }
        }
    }
}

/// Returns the carrier's path.
pub fn find_carrier() -> anyhow::Result<PathBuf> {
    installed::find(CARRIER)
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Transport, String> {
        let (name, provider) = text.split_once(':').map_or((text, None), |(name, provider)| (name, Some(provider)));
        match (name, provider) {
            ("tcp", None) => Ok(Transport::Tcp),
            // The carrier would take a leading dash for an option.
            ("libfabric", provider) if provider.is_none_or(|it| !it.is_empty() && !it.starts_with('-')) => {
                Ok(Transport::Libfabric(provider.map(str::to_owned)))
            }
            _ => Err("write tcp, libfabric or libfabric:PROVIDER".into()),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Transport::Tcp => f.write_str("tcp"),
            Transport::Libfabric(None) => f.write_str("libfabric"),
            Transport::Libfabric(Some(provider)) => write!(f, "libfabric:{provider}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_have_names() {
        let libfabric = |provider: &str| Transport::Libfabric(Some(provider.into()));
        for (text, expected) in [
            ("tcp", Some(Transport::Tcp)),
            ("libfabric", Some(Transport::Libfabric(None))),
            ("libfabric:cxi", Some(libfabric("cxi"))),
            ("libfabric:verbs;ofi_rxm", Some(libfabric("verbs;ofi_rxm"))),
            ("tcp:x", None),
            ("libfabric:", None),
            ("libfabric:--list", None),
            ("udp", None),
        ] {
            let parsed = text.parse::<Transport>().ok();
            assert_eq!(parsed, expected, "{text}");
            assert!(parsed.is_none_or(|parsed| parsed.to_string() == text));
        }
    }
}
