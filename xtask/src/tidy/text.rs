//! Source text with its comments and literals blanked, so that what is left is code.

/// The language of a file, by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
    /// C, headers included.
    C,
}

impl Language {
    /// The language of the file called `path`; `None` if it is neither.
    pub fn of(path: &str) -> Option<Language> {
        match path.rsplit_once('.')?.1 {
            "rs" => Some(Language::Rust),
            "c" | "h" | "def" => Some(Language::C),
            _ => None,
        }
    }
}

/// `source` with every byte of a comment, string or character literal turned into a space; lines stay.
pub fn blank(source: &str, language: Language) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    while out.len() < bytes.len() {
        let at = out.len();
        let end = at + literal_or_comment(&bytes[at..], bytes[..at].last().copied(), language);
        if end == at {
            out.push(bytes[at]);
        } else {
            out.extend(bytes[at..end].iter().map(|&b| if b == b'\n' { b } else { b' ' }));
        }
    }
    String::from_utf8(out).expect("blanking leaves whole characters or spaces")
}

/// How many bytes at the start of `rest` are a comment or a literal.
fn literal_or_comment(rest: &[u8], before: Option<u8>, language: Language) -> usize {
    if rest.starts_with(b"//") {
        return rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return block_comment(rest, language == Language::Rust);
    }
    let in_word = before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    match rest[0] {
        b'"' => quoted(rest, b'"'),
        b'\'' if language == Language::C => quoted(rest, b'\''),
        b'\'' => rust_char(rest),
        b'r' | b'b' | b'c' if language == Language::Rust && !in_word => raw_string(rest),
        _ => 0,
    }
}

fn block_comment(rest: &[u8], nests: bool) -> usize {
    let (mut at, mut depth) = (2, 1);
    while at < rest.len() && depth > 0 {
        match &rest[at..] {
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            [b'/', b'*', ..] if nests => (at, depth) = (at + 2, depth + 1),
            _ => at += 1,
        }
    }
    at
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// A character literal; zero for a lifetime.
fn rust_char(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return quoted(rest, b'\'');
    }
    let width = rest[1..].iter().position(|&b| b == b'\'');
    let text = |width: usize| std::str::from_utf8(&rest[1..=width]).is_ok_and(|t| t.chars().count() == 1);
    width.filter(|&w| (1..=4).contains(&w) && text(w)).map_or(0, |w| w + 2)
}

fn raw_string(rest: &[u8]) -> usize {
    let prefix = rest.iter().take_while(|b| b"rbc".contains(b)).count();
    if !rest[..prefix].contains(&b'r') {
        return 0;
    }
    let hashes = rest[prefix..].iter().take_while(|&&b| b == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return 0;
    }
    let end = [&b"\""[..], &rest[prefix..prefix + hashes]].concat();
    let body = prefix + hashes + 1;
    let length = rest[body..].windows(end.len()).position(|w| w == end);
    length.map_or(rest.len(), |length| body + length + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(language: Language, source: &str, expected: &str) {
        let squeezed: String = blank(source, language).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed, expected, "{source}");
    }

    #[test]
    fn rust() {
        check(Language::Rust, "a /* b /* c */ d */ e // f\ng", "a e g");
        check(Language::Rust, r#"f("x{\"}", b"{", '{', '\'', b'{')"#, "f( , b , , , b )");
        check(Language::Rust, r###"let s = r#"{ " "#; t"###, "let s = ; t");
        check(Language::Rust, "fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
        check(Language::Rust, "'ü' for r in b {}", "for r in b {}");
    }

    #[test]
    fn c() {
        check(Language::C, "int x; /* a /* b */ y('\"', \"/*\");", "int x; y( , );");
        check(Language::C, "// {\n{", "{");
    }

    #[test]
    fn lines_stay() {
        assert_eq!(blank("/*\n\n*/x", Language::C), "  \n\n  x");
    }
}
