//! Names and lists in messages.

/// Lines that a message has.
const SHOWN_MAX: usize = 10;

/// Returns the name of a seal: the first digits of the digest of what is signed.
pub fn name_of(text: &[u8]) -> String {
    blake3::hash(text).to_hex()[..16].to_owned()
}

/// Returns the first lines, each on a line of its own, and how many follow.
pub fn list(lines: &[String]) -> String {
    let mut text: String = lines.iter().take(SHOWN_MAX).map(|line| format!("\n  {line}")).collect();
    if lines.len() > SHOWN_MAX {
        text += &format!("\n  and {} more", lines.len() - SHOWN_MAX);
    }
    text
}
