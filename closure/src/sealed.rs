//! A seal as text: the entries of a closure with digests of their content, signed.
//!
//! The format is specified in `docs/internals/seal.md`.

use std::fmt::Write as _;

use thiserror::Error;

use crate::recorded::{COMMENT, ENTRIES_MAX, Entry, escaped, unescape};

/// The first line of every seal that is written, and of every one that is read.
pub const FIRST_LINE: &str = "headwater seal 1";
/// The most names in all directories of a seal.
pub const NAMES_MAX: usize = 1 << 20;
/// Begins the line with the title.
const TITLE: &str = "# ";
/// The first word of the last line.
const SIGNATURE: &str = "signature ";
/// The first word of a name's line.
const NAME: &str = "+ ";

/// A BLAKE3 digest.
pub type Digest = [u8; 32];

/// An entry, and what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// What was used.
    pub entry: Entry,
    /// The digest of a file's content, of the listed blocks one after the other, or of a link's target.
    pub digest: Option<Digest>,
    /// A directory's names, sorted.
    pub names: Vec<Vec<u8>>,
}

/// What a program used, and what it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seal {
    /// The program, for people; one line.
    pub title: String,
    /// The entries.
    pub entries: Vec<Sealed>,
}

/// A signature over all lines before its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The signer's Ed25519 key.
    pub signer: [u8; 32],
    /// Its signature.
    pub bytes: [u8; 64],
}

/// A seal that was read; its signature is not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed<'a> {
    /// The seal.
    pub seal: Seal,
    /// The signature.
    pub signature: Signature,
    /// What is signed.
    pub text: &'a [u8],
}

/// Why a text is no seal.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SealError {
    /// The first line is of another version, or of another kind of file.
    #[error("its first line is not \"{FIRST_LINE}\"")]
    Version,
    /// A line is invalid.
    #[error("its line {0} is damaged")]
    Line(usize),
    /// There are too many entries or names.
    #[error("it has more than {ENTRIES_MAX} entries or {NAMES_MAX} names")]
    Long,
    /// The last line is no signature.
    #[error("it ends without a signature: it is cut off")]
    CutOff,
}

impl Seal {
    /// Returns the text that is signed.
    pub fn text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n{TITLE}{}\n", one_line(&self.title));
        for Sealed { entry, digest, names } in &self.entries {
            text += &digest.as_ref().map_or_else(|| "-".into(), |digest| hexadecimal(digest));
            let _ = writeln!(text, " {entry}");
            names.iter().for_each(|name| text += &format!("{NAME}{}\n", escaped(name)));
        }
        text
    }

    /// Reads a signed seal.
    ///
    /// # Errors
    /// See [`SealError`]; a seal is taken as a whole or not at all.
    pub fn parse(bytes: &[u8]) -> Result<Signed<'_>, SealError> {
        let without_end = bytes.strip_suffix(b"\n").ok_or(SealError::CutOff)?;
        let start = without_end.iter().rposition(|&byte| byte == b'\n').ok_or(SealError::CutOff)? + 1;
        let (text, last) = (&bytes[..start], &without_end[start..]);
        let mut lines = (1..).zip(text[..start - 1].split(|&byte| byte == b'\n'));
        if lines.next().is_none_or(|(_, first)| first != FIRST_LINE.as_bytes()) {
            return Err(SealError::Version);
        }
        let signature = std::str::from_utf8(last).ok().and_then(Signature::parse).ok_or(SealError::CutOff)?;
        let (mut seal, mut names) = (Seal::default(), 0);
        for (number, line) in lines {
            let line = std::str::from_utf8(line).map_err(|_| SealError::Line(number))?;
            if line.as_bytes().first() == Some(&COMMENT) {
                let title = line.strip_prefix(TITLE).filter(|_| number == 2);
                seal.title = title.map_or(seal.title, one_line);
                continue;
            }
            if let Some(name) = line.strip_prefix(NAME) {
                names += 1;
                let name = unescape(name).filter(|name| !name.is_empty() && !name.contains(&b'/'));
                let directory = seal.entries.last_mut();
                directory.zip(name).map(|(last, name)| last.names.push(name)).ok_or(SealError::Line(number))?;
            } else {
                seal.entries.push(Sealed::parse(line).ok_or(SealError::Line(number))?);
            }
            if seal.entries.len() > ENTRIES_MAX || names > NAMES_MAX {
                return Err(SealError::Long);
            }
        }
        Ok(Signed { seal, signature, text })
    }
}

impl Sealed {
    fn parse(line: &str) -> Option<Sealed> {
        let (digest, entry) = line.split_once(' ')?;
        let digest = if digest == "-" { None } else { Some(bytes(digest)?) };
        Some(Sealed { entry: Entry::parse(entry)?, digest, names: Vec::new() })
    }
}

impl Signature {
    /// Returns the last line, with its end.
    pub fn line(&self) -> String {
        format!("{SIGNATURE}{} {}\n", hexadecimal(&self.signer), hexadecimal(&self.bytes))
    }

    fn parse(line: &str) -> Option<Signature> {
        let (signer, signature) = line.strip_prefix(SIGNATURE)?.split_once(' ')?;
        Some(Signature { signer: bytes(signer)?, bytes: bytes(signature)? })
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Writes bytes as lower-case hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads lower-case hexadecimal digits. `None` unless they are exactly `N` bytes.
pub fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() != 2 * N || !digits.bytes().all(is_digit) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "headwater seal 1\n# python3 a.py\n\
        - directory /sw\n+ a\\x20b\n+ lib\n\
        0101010101010101010101010101010101010101010101010101010101010101 whole 3 5.000000006 /sw/a\\x20b\n\
        - attributes 3 5.000000006 /sw/lib\n";

    fn signature() -> Signature {
        Signature { signer: [2; 32], bytes: [3; 64] }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = format!("{BODY}{}", signature().line());
        let signed = Seal::parse(text.as_bytes()).unwrap();
        assert_eq!((signed.signature, signed.text), (signature(), BODY.as_bytes()));
        let Seal { title, entries } = &signed.seal;
        assert_eq!((&**title, entries.len()), ("python3 a.py", 3));
        assert_eq!(entries[0].names, [b"a b".to_vec(), b"lib".to_vec()]);
        assert_eq!((entries[0].digest, entries[1].digest), (None, Some([1; 32])));
        assert_eq!(signed.seal.text(), BODY);
        let strange = Seal { title: "a\nb".into(), ..Seal::default() };
        assert_eq!(strange.text(), "headwater seal 1\n# a b\n");
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let end = signature().line();
        let check = |text: String, expected| assert_eq!(Seal::parse(text.as_bytes()).unwrap_err(), expected, "{text}");
        check(BODY.into(), SealError::CutOff);
        check(String::new(), SealError::CutOff);
        check(end.clone(), SealError::CutOff);
        check(format!("{BODY}{end}").trim_end().into(), SealError::CutOff);
        check(format!("{BODY}{}", end.to_uppercase()), SealError::CutOff);
        check(format!("{}{end}", BODY.replacen('1', "2", 1)), SealError::Version);
        check(format!("{FIRST_LINE}\n+ a\n{end}"), SealError::Line(2));
        check(format!("{BODY}+ a/b\n{end}"), SealError::Line(8));
        check(format!("{BODY}+ \n{end}"), SealError::Line(8));
        check(format!("{BODY}01 name /sw\n{end}"), SealError::Line(8));
        check(format!("{BODY}\n{end}"), SealError::Line(8));
        let many = "- name /a\n".repeat(ENTRIES_MAX + 1);
        check(format!("{FIRST_LINE}\n{many}{end}"), SealError::Long);
    }
}
