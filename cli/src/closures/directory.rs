//! The directory of a user's closures: a file for each program, of which those that are used least recently go.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use headwater_closure::recorded;

/// What one directory holds at most.
const CLOSURES_MAX: usize = 200;
const BYTES_MAX: u64 = 256 << 20;
const ENDING: &str = "closure";
/// Begins the line with a closure's title.
const TITLE: &str = "# of ";

/// A closure in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closure {
    /// Its file's name.
    pub name: String,
    /// The command of which it is.
    pub title: String,
    /// Number of its entries.
    pub entries: usize,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was used last.
    pub used: SystemTime,
}

/// Returns where closures lie without an option; `None` without a home directory.
pub fn default_directory() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("headwater/closures"))
}

/// Returns the closures, the most recently used first. None without the directory.
pub fn list(directory: &Path) -> io::Result<Vec<Closure>> {
    let files = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    let is_closure = |path: &PathBuf| path.extension().is_some_and(|ending| ending == ENDING);
    let paths = files.flatten().map(|file| file.path()).filter(is_closure);
    // Another run may have removed one meanwhile.
    let mut closures: Vec<Closure> = paths.filter_map(|path| read(&path).ok()).collect();
    closures.sort_by_key(|closure| std::cmp::Reverse(closure.used));
    Ok(closures)
}

fn read(path: &Path) -> io::Result<Closure> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let mut lines = BufReader::new(file).split(b'\n').skip(1);
    let title = lines.next().transpose()?.unwrap_or_default();
    Ok(Closure {
        name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        title: String::from_utf8_lossy(title.strip_prefix(TITLE.as_bytes()).unwrap_or_default()).into_owned(),
        entries: lines.filter(|line| line.as_ref().is_ok_and(|line| !line.starts_with(b"#"))).count(),
        bytes: metadata.len(),
        used: metadata.modified()?,
    })
}

/// Returns the title in a closure's text; `None` if it has none.
pub fn title_of(text: &[u8]) -> Option<String> {
    let second = text.split(|&byte| byte == b'\n').nth(1)?;
    Some(String::from_utf8_lossy(second.strip_prefix(TITLE.as_bytes())?).into_owned())
}

/// Removes a closure, by its file's name.
pub fn remove(directory: &Path, name: &str) -> io::Result<()> {
    fs::remove_file(directory.join(name))
}

/// Returns a closure with a title.
pub(super) fn text(title: &str, entries: &[String]) -> String {
    let title: String = title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let lines: String = entries.iter().flat_map(|line| [line, "\n"]).collect();
    format!("{}{}\n{TITLE}{title}\n{lines}", recorded::MAGIC, recorded::VERSION)
}

/// Notes that a closure was used.
pub(super) fn note_use(directory: &Path, name: &str) -> io::Result<()> {
    File::options().append(true).open(directory.join(name))?.set_modified(SystemTime::now())
}

/// Writes a closure, which other runs see complete or not at all, and makes room for it.
pub(super) fn write(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let temporary = directory.join(format!(".{name}.{}", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&temporary, directory.join(name)));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.and_then(|()| make_room(directory, CLOSURES_MAX, BYTES_MAX))
}

/// Removes the least recently used closures beyond the limits.
fn make_room(directory: &Path, closures_max: usize, bytes_max: u64) -> io::Result<()> {
    let mut bytes = 0;
    for (number, closure) in list(directory)?.into_iter().enumerate() {
        bytes += closure.bytes;
        if number >= closures_max || (bytes > bytes_max && number > 0) {
            // Another run may remove the same.
            let _ = remove(directory, &closure.name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    fn at(seconds: u64, path: &Path) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn written_listed_and_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("new/closures");
        assert_eq!(list(&directory).unwrap(), []);
        let text = text("app\n--x", &["any /a".into(), "any /b".into()]);
        write(&directory, "app-1.closure", &text).unwrap();
        write(&directory, "app-1.closure", &text).unwrap();
        fs::write(directory.join("other"), "").unwrap();
        let [closure] = list(&directory).unwrap().try_into().unwrap();
        assert_eq!((&*closure.title, closure.entries, closure.bytes), ("app --x", 2, text.len() as u64));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&directory.join("app-1.closure"))), (0o700, 0o600));
        assert_eq!(headwater_closure::recorded::parse(text.as_bytes()).unwrap().len(), 2);
        remove(&directory, "app-1.closure").unwrap();
        assert_eq!(list(&directory).unwrap(), []);
        assert!(note_use(&directory, "app-1.closure").is_err());
    }

    #[test]
    fn the_least_recently_used_go() {
        let scratch = tempfile::tempdir().unwrap();
        for number in 0..6u64 {
            let name = format!("{number}.closure");
            write(scratch.path(), &name, "0123456789").unwrap();
            at(1000 + number, &scratch.path().join(name));
        }
        note_use(scratch.path(), "0.closure").unwrap();
        let names = || list(scratch.path()).unwrap().into_iter().map(|closure| closure.name).collect::<Vec<_>>();
        make_room(scratch.path(), 4, 1000).unwrap();
        assert_eq!(names(), ["0.closure", "5.closure", "4.closure", "3.closure"]);
        make_room(scratch.path(), 4, 25).unwrap();
        assert_eq!(names(), ["0.closure", "5.closure"]);
        make_room(scratch.path(), 4, 1).unwrap();
        assert_eq!(names(), ["0.closure"], "one always stays");
    }
}
