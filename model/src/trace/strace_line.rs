//! Lines that `strace -f -ttt` writes.

/// Returns whether a text is of this form.
pub fn is_strace(text: &str) -> bool {
    text.lines().take(20).filter_map(split).any(|(_, _, rest)| rest.contains('(') && rest.contains(" = "))
}

/// Returns process, time in nanoseconds and call of a line; the process is 0 if strace names none.
pub fn split(line: &str) -> Option<(u32, u64, &str)> {
    let (mut first, mut rest) = line.trim_start().split_once(' ')?;
    let mut process = 0;
    if first == "[pid" {
        (first, rest) = rest.trim_start().split_once("] ")?;
    }
    if !first.contains('.') {
        process = first.parse().ok()?;
        (first, rest) = rest.trim_start().split_once(' ')?;
    }
    let (seconds, fraction) = first.split_once('.')?;
    let fraction: u64 = fraction.get(..6)?.parse().ok()?;
    let at_ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction * 1000)?;
    Some((process, at_ns, rest.trim_start()))
}

/// Returns the first path among a call's arguments, below the descriptor's if that is written with it (`-y`).
pub fn path(arguments: &str) -> Option<String> {
    let (before, rest) = arguments.split_once('"')?;
    let (name, _) = rest.split_once('"')?;
    if name.starts_with('/') {
        return Some(name.to_owned());
    }
    let (_, directory) = before.rsplit_once('<')?;
    let (directory, _) = directory.split_once('>')?;
    directory.starts_with('/').then(|| format!("{directory}/{name}"))
}

/// Returns the number with which a text begins.
pub fn number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_none_are_no_lines() {
        assert_eq!(split("7 100.000500 close(3) = 0"), Some((7, 100_000_500_000, "close(3) = 0")));
        for line in
            ["7 99999999999999999999.000000 close(3) = 0", "7 18446744073.999999 close(3) = 0", "7 1.5 close(3)", ""]
        {
            assert_eq!(split(line), None, "{line}");
        }
    }
}
