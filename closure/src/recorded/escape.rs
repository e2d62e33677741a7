//! Bytes as printable ASCII without spaces, and back.

/// Returns bytes of a path as printable ASCII.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'!'..=b'~' if byte != b'\\' => text.push(char::from(byte)),
            _ => text += &format!("\\x{byte:02x}"),
        }
    }
    text
}

/// Returns the bytes of an escaped path; `None` if it is not in the form of [`escaped`].
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'\\' => {
                let digits =
                    rest.strip_prefix(b"x")?.get(..2).filter(|d| d.iter().all(|b| b"0123456789abcdef".contains(b)))?;
                let byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
                bytes.push(Some(byte).filter(|b| *b != 0)?);
                rest = &rest[3..];
            }
            b'!'..=b'~' => bytes.push(first),
            _ => return None,
        }
    }
    Some(bytes)
}
