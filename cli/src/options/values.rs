//! Parsers of options' values.

use std::ops::RangeInclusive;

/// Returns a parser of whole numbers in a range.
pub fn number(range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| match *range.end() {
            u32::MAX => format!("write a number of {} or more", range.start()),
            end => format!("write a number from {} to {end}", range.start()),
        })
    }
}

/// Returns a parser of whole numbers from `least` on.
pub fn number_from(least: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    number(least..=u32::MAX)
}

/// Parses a port.
pub fn parse_port(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| "write a port from 1 to 65535".into())
}

/// Parses a number of bytes with an optional unit: K, M, G or T, powers of 1024.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let bare = text.trim_end_matches(['B', 'b']).trim_end_matches('i');
    let unit = match bare.chars().last().map(|c| c.to_ascii_uppercase()) {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        _ => 0,
    };
    let digits = if unit == 0 { bare } else { &bare[..bare.len() - 1] };
    let number: f64 = digits.trim().parse().map_err(|_| String::from("write a size as 4096, 512M or 2G"))?;
    let bytes = number * (1u64 << unit) as f64;
    if bytes.is_finite() && (1.0..=(1u64 << 60) as f64).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(String::from("write a size from 1 byte to 1048576T"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("4096", Some(4096)),
            ("2G", Some(2 << 30)),
            ("512m", Some(512 << 20)),
            ("1.5 KiB", Some(1536)),
            ("1TB", Some(1 << 40)),
            ("", None),
            ("G", None),
            ("-1", None),
            ("0", None),
            ("1E400", None),
            ("é", None),
        ] {
            assert_eq!(parse_bytes(text).ok(), expected, "{text}");
        }
    }
}
