//! The table of `--warm-reseed`: how each rank reseeds modules that draw random numbers as they are imported.
//!
//! A line is `MODULE: STATEMENT`, and indented lines continue it. The statement is Python, in which `module` is the
//! module; `pass` does nothing. The zygote reads it (`spawn/zygote/python_random.c`).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Limit of a table, in bytes: half of the kernel's limit of a variable.
const BYTES_MAX: u64 = 64 << 10;

/// Parses the option: the absolute path of a file with a table.
pub fn parse(name: &str) -> Result<PathBuf, String> {
    read(Path::new(name))?;
    std::path::absolute(name).map_err(|error| error.to_string())
}

/// Reads the table.
///
/// # Errors
/// It can't be read, or is malformed.
pub fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let mut text = String::new();
    let got = File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    let bytes = got.map_err(|error| format!("{shown} can't be read: {error}"))?;
    if bytes as u64 > BYTES_MAX {
        return Err(format!("{shown} is larger than {BYTES_MAX} bytes"));
    }
    match wrong_line(&text) {
        Some(number) => Err(format!("line {number} of {shown} is not MODULE: STATEMENT, nor indented behind one")),
        None => Ok(text),
    }
}

/// Returns the number of the first malformed line.
fn wrong_line(text: &str) -> Option<usize> {
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_entry = |line: &str| line.split_once(':').is_some_and(|(name, _)| name.trim_end().split('.').all(is_part));
    let mut is_behind_entry = false;
    for (number, line) in (1..).zip(text.split('\n')) {
        let rest = line.trim();
        if rest.contains('\0') {
            return Some(number);
        }
        if rest.is_empty() || rest.starts_with('#') {
            continue;
        }
        let is_indented = line.starts_with(char::is_whitespace);
        if is_indented && !is_behind_entry || !is_indented && !is_entry(line) {
            return Some(number);
        }
        is_behind_entry = true;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        for (text, wrong) in [
            ("", None),
            ("# how\n\na.b_1: module.seed()\nc :\n  # indented\n  x = 1\n\tmodule.seed(x)\n", None),
            ("a: pass\r\n", None),
            (" pass\n", Some(1)),
            ("a: pass\nb pass\n", Some(2)),
            ("a..b: pass", Some(1)),
            (": pass", Some(1)),
            ("a: pass\n\0", Some(2)),
        ] {
            assert_eq!(wrong_line(text), wrong, "{text:?}");
        }
        assert!(parse("/nonexistent").unwrap_err().contains("/nonexistent can't be read"));
    }
}
