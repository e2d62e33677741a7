//! Makes text of any bytes, and markup of any text.

use std::fmt::Write;

/// Returns bytes, such as those of a path, as text that can be shown: what is not UTF-8 as `\xHH`, control characters
/// and characters that change the direction of text as `\u{H}`.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|character| push(&mut text, character));
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Returns text as HTML, for content and for values of attributes in quotation marks. A line feed stays.
pub fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\n' => escaped.push('\n'),
            _ => push(&mut escaped, character),
        }
    }
    escaped
}

/// Returns JSON that can stand in a script's element: no end of the element, no comment.
pub(super) fn script(json: &str) -> String {
    // These characters only occur in strings of JSON, where each may be written by its number.
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn push(text: &mut String, character: char) {
    let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let ends = matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}');
    if character.is_control() || turns || ends {
        text.extend(character.escape_unicode());
    } else {
        text.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown() {
        for (bytes, expected) in [
            (&b"/sw/lib"[..], "/sw/lib"),
            ("/sw/é".as_bytes(), "/sw/é"),
            (b"/sw/\xff\xfe!", "/sw/\\xff\\xfe!"),
            (b"a\nb\x1b[0m", "a\\u{a}b\\u{1b}[0m"),
            ("a\u{202e}b".as_bytes(), "a\\u{202e}b"),
        ] {
            assert_eq!(printable(bytes), expected);
        }
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(html("<a b='c' d=\"e\">&\n\u{7}"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;\n\\u{7}");
        let text = serde_json::to_string("</script><!--&").unwrap_or_default();
        let escaped = script(&text);
        assert!(!escaped.contains(['<', '>', '&']));
        assert_eq!(serde_json::from_str::<String>(&escaped).ok().as_deref(), Some("</script><!--&"));
    }
}
