//! How nodes reach each other, as `--transport` says: over TCP, or over libfabric where both ends can.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use headwater_daemon::Fabric;

use crate::message::log;
use crate::session::prepare::find_installed;

/// The program that carries links over libfabric.
const CARRIER: &str = "headwater-fabric";

/// What carries links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// libfabric, by this provider or the first that it finds; TCP where that can't be.
    Libfabric(Option<String>),
}

impl Transport {
    /// What daemons are told of it. Says so if the carrier is not installed.
    pub fn fabric(&self) -> Option<Fabric> {
        let Transport::Libfabric(provider) = self else { return None };
        match find_carrier() {
            Ok(carrier) => Some(Fabric { carrier, provider: provider.clone() }),
            Err(error) => {
                log(format_args!("warning: {error:#}. It is built where libfabric's headers are. Nodes use TCP"));
                None
            }
        }
    }
}

/// Where the carrier is installed.
pub fn find_carrier() -> anyhow::Result<PathBuf> {
    find_installed(CARRIER)
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Transport, String> {
        let (name, provider) = text.split_once(':').map_or((text, None), |(name, provider)| (name, Some(provider)));
        match (name, provider) {
            ("tcp", None) => Ok(Transport::Tcp),
            // What begins with a dash would be an option of the carrier.
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
