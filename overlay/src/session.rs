//! A session's identity and key, the protection of its links, and its use of libfabric.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::Zeroize;

/// A session's identity; in JSON, 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(pub u128);

/// A session's key; in JSON, 64 hexadecimal digits. It is wiped when dropped and never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionKey(pub [u8; 32]);

/// How links protect what they carry. The handshake is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkProtection {
    /// Others can neither read nor change it.
    #[default]
    Encrypt,
    /// Others can read it and can't change it.
    Authenticate,
}

/// How links use libfabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fabric {
    /// The program `headwater-fabric`, as this node sees it.
    pub carrier: PathBuf,
    /// The provider; by default the first that libfabric finds.
    pub provider: Option<String>,
}

/// Text that names no protection of links.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("write encrypt or authenticate")]
pub struct NoLinkProtection;

/// Text that does not consist of this many hexadecimal digits.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("expected {digits} hexadecimal digits")]
pub struct NotHexadecimal {
    digits: usize,
}

impl LinkProtection {
    /// All of them.
    pub const ALL: [LinkProtection; 2] = [LinkProtection::Encrypt, LinkProtection::Authenticate];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            LinkProtection::Encrypt => "encrypt",
            LinkProtection::Authenticate => "authenticate",
        }
    }
}

impl fmt::Display for LinkProtection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LinkProtection {
    type Err = NoLinkProtection;

    fn from_str(text: &str) -> Result<LinkProtection, NoLinkProtection> {
        LinkProtection::ALL.into_iter().find(|protection| protection.name() == text).ok_or(NoLinkProtection)
    }
}

impl Drop for SessionKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(…)")
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl From<SessionId> for String {
    fn from(session: SessionId) -> String {
        format!("{:032x}", session.0)
    }
}

impl TryFrom<String> for SessionId {
    type Error = NotHexadecimal;

    fn try_from(digits: String) -> Result<SessionId, NotHexadecimal> {
        let bytes = from_hexadecimal::<16>(&digits)?;
        Ok(SessionId(u128::from_be_bytes(bytes)))
    }
}

impl From<SessionKey> for String {
    fn from(key: SessionKey) -> String {
        key.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for SessionKey {
    type Error = NotHexadecimal;

    fn try_from(mut digits: String) -> Result<SessionKey, NotHexadecimal> {
        let key = from_hexadecimal::<32>(&digits).map(SessionKey);
        digits.zeroize();
        key
    }
}

fn from_hexadecimal<const N: usize>(digits: &str) -> Result<[u8; N], NotHexadecimal> {
    let wrong = NotHexadecimal { digits: N * 2 };
    if digits.len() != N * 2 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(wrong);
    }
    let mut bytes = [0; N];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong.clone())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protections_have_names() {
        for protection in LinkProtection::ALL {
            assert_eq!(protection.to_string().parse(), Ok(protection));
            assert_eq!(serde_json::to_string(&protection).unwrap(), format!("\"{protection}\""));
        }
        assert_eq!("none".parse::<LinkProtection>(), Err(NoLinkProtection));
    }

    #[test]
    fn only_hexadecimal_digits_are_taken() {
        assert!(SessionId::try_from("+".repeat(32)).is_err());
        assert!(SessionKey::try_from("é".repeat(32)).is_err());
        let session = SessionId(0xabc << 100);
        assert_eq!(SessionId::try_from(String::from(session)), Ok(session));
    }
}
