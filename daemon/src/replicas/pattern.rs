//! Patterns of paths.

/// Returns whether a path matches a pattern, in which `*` stands for any bytes, `/` included.
pub(super) fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let mut parts = pattern.split(|&byte| byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts.filter(|part| !part.is_empty()) {
        let Some(at) = rest.windows(part.len()).position(|window| window == part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, expected) in [
            ("/sw/mkl/lib/libmkl.so.2", true),
            ("/sw/mkl/lib/libmkl.so", false),
            ("*", true),
            ("/sw/mkl/*", true),
            ("/sw/mkl*lib/libmkl.so.*", true),
            ("*/libmkl*", true),
            ("*mkl*mkl*", true),
            ("*mkl*mkl*mkl*", false),
            ("libmkl*", false),
            ("/sw/mkl/lib/libmkl.so.2*2", false),
            ("", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), b"/sw/mkl/lib/libmkl.so.2"), expected, "{pattern}");
        }
    }
}
