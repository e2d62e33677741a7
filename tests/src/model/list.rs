//! Reading directories, with all the rules that their streams have.

use std::collections::HashMap;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, open, statat};
use rustix::io::Errno;

use super::line::failure;
use super::tree::below;

/// Names and types in order of the names. `Err` too if a name occurs twice, or its type or number is not that of its
/// stat; those are lines of their own.
pub(super) fn list(path: &Path) -> Result<String, Errno> {
    let entries = entries(&mut stream(path)?)?;
    let mut lines: Vec<String> = entries.iter().map(|entry| describe(path, entry)).collect();
    lines.sort();
    let all = lines.len();
    lines.dedup();
    if lines.len() != all {
        lines.push(format!("{} names twice", all - lines.len()));
    }
    Ok(lines.join("\n"))
}

/// Seeks back to each position of the stream that is a multiple of `part` names from the start, and reads on from
/// there: the same names follow as before.
pub(super) fn list_in_parts(path: &Path, part: u64) -> Result<String, Errno> {
    let mut dir = stream(path)?;
    let first = entries(&mut dir)?;
    let names: Vec<Vec<u8>> = first.iter().map(|entry| entry.file_name().to_bytes().to_vec()).collect();
    let mut wrong = Vec::new();
    for at in (0..first.len()).step_by(part.max(1) as usize) {
        if at == 0 {
            dir.rewind();
        } else {
            dir.seek(first[at - 1].offset())?;
        }
        let again: Vec<Vec<u8>> =
            entries(&mut dir)?.iter().map(|entry| entry.file_name().to_bytes().to_vec()).collect();
        if again != names[at..] {
            wrong.push(format!("from {at}: {} names instead of {}", again.len(), names.len() - at));
        }
    }
    Ok(format!("{} names {}", names.len(), wrong.join(", ")))
}

fn stream(path: &Path) -> Result<Dir, Errno> {
    Dir::new(open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn entries(dir: &mut Dir) -> Result<Vec<DirEntry>, Errno> {
    std::iter::from_fn(|| dir.read()).collect()
}

fn describe(path: &Path, entry: &DirEntry) -> String {
    let name = entry.file_name().to_bytes();
    let shown = name.escape_ascii().to_string();
    let kind = entry.file_type();
    // The parent of the tree's root may be another file system's.
    if name == b".." {
        return format!("{shown} {kind:?}");
    }
    let what = match statat(CWD, below(path, name), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) != kind => "of another type".into(),
        Ok(stat) if stat.st_ino != entry.ino() => format!("of number {}, not {}", stat.st_ino, entry.ino()),
        Ok(_) => String::new(),
        Err(error) => failure(error),
    };
    format!("{shown} {kind:?} {what}").trim_end().to_owned()
}

/// The result of [`list`] for these names.
pub(super) fn expected(names: &HashMap<Vec<u8>, FileType>) -> String {
    let mut lines: Vec<String> = names.iter().map(|(name, kind)| format!("{} {kind:?}", name.escape_ascii())).collect();
    lines.extend([". Directory".into(), ".. Directory".into()]);
    lines.sort();
    lines.join("\n")
}
