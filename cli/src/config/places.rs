//! Where files with defaults lie, and which of them are trusted.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Names another file in place of the user's. If it is empty, no file is read.
pub const CONFIG: &str = "HEADWATER_CONFIG";
/// The site's file.
pub const SITE: &str = "/etc/headwater/headwater.toml";
/// The user's file, from the directory of the user's settings.
const USER: &str = "headwater/headwater.toml";
/// Limit of a file's size.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Permission bits that let others write.
const OTHERS_WRITE: u32 = 0o002;
/// The same, with the group.
const GROUP_AND_OTHERS_WRITE: u32 = 0o022;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The user's.
    User,
    /// The user's, named by the variable: it must be there.
    Named,
    /// The site's.
    Site,
}

impl Owner {
    /// Returns its name in the output of `headwater config`.
    pub fn name(self) -> &'static str {
        if self == Owner::Site { "site" } else { "user" }
    }
}

/// What was found at a place.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// The file's bytes.
    Read(Vec<u8>),
    /// Nothing.
    Absent,
    /// A file that is not used, and why.
    Ignored(String),
}

/// Returns the files that are read, the one that wins first.
pub fn places(variable: impl Fn(&str) -> Option<OsString>) -> Vec<(Owner, PathBuf)> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let settings = || absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    let user = match variable(CONFIG) {
        Some(named) if named.is_empty() => return Vec::new(),
        Some(named) => Some((Owner::Named, named.into())),
        None => settings().map(|settings| (Owner::User, settings.join(USER))),
    };
    user.into_iter().chain([(Owner::Site, SITE.into())]).collect()
}

/// Returns the files that are read in this process's environment.
pub fn here() -> Vec<(Owner, PathBuf)> {
    places(|name| env::var_os(name))
}

/// Reads a file.
pub fn read(path: &Path, owner: Owner) -> Content {
    // A pipe must not block.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Content::Absent,
        // The home directory is another user's, as under `su` without `-`: there may be nothing at all.
        Err(_) if owner == Owner::User && fs::symlink_metadata(path).is_err() => return Content::Absent,
        Err(error) => return Content::Ignored(format!("it can't be opened: {error}")),
    };
    let mut bytes = Vec::new();
    let checked = file.metadata().map_err(|error| error.to_string()).and_then(|found| {
        // Room for the whole file, and for the read that finds its end.
        bytes.reserve(found.len().min(FILE_BYTES_MAX) as usize + 64);
        check(&found, owner)
    });
    let filled = |()| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string());
    match checked.and_then(filled) {
        Ok(count) if count as u64 > FILE_BYTES_MAX => {
            Content::Ignored(format!("it has more than {FILE_BYTES_MAX} bytes"))
        }
        Ok(_) => Content::Read(bytes),
        Err(why) => Content::Ignored(why),
    }
}

/// Returns why a file is not used.
fn check(found: &Metadata, owner: Owner) -> Result<(), String> {
    let user = rustix::process::geteuid().as_raw();
    let is_site = owner == Owner::Site;
    let writable = if is_site { GROUP_AND_OTHERS_WRITE } else { OTHERS_WRITE };
    // In a user namespace without root's number, root's files have another owner: that of the root directory.
    let is_roots = || found.uid() == 0 || fs::metadata("/").is_ok_and(|root| root.uid() == found.uid());
    if !found.is_file() {
        Err("it is not a regular file".into())
    } else if !(is_roots() || !is_site && found.uid() == user) {
        Err(format!(
            "its owner is the user {}: it must be {}",
            found.uid(),
            if is_site { "root" } else { "the user or root" }
        ))
    } else if found.mode() & writable != 0 {
        Err(format!("others may write it: run `chmod {} FILE`", if is_site { "go-w" } else { "o-w" }))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    fn names(variables: &[(&str, &str)]) -> Vec<(Owner, String)> {
        let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into());
        places(variable).into_iter().map(|(owner, path)| (owner, path.display().to_string())).collect()
    }

    #[test]
    fn the_users_file_comes_first() {
        let site = || (Owner::Site, String::from(SITE));
        let user = |path: &str| (Owner::User, String::from(path));
        assert_eq!(names(&[]), [site()]);
        assert_eq!(names(&[("HOME", "/h")]), [user("/h/.config/headwater/headwater.toml"), site()]);
        let both = [("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")];
        assert_eq!(names(&both), [user("/x/headwater/headwater.toml"), site()]);
        let relative = [("HOME", "/h"), ("XDG_CONFIG_HOME", "x")];
        assert_eq!(names(&relative), [user("/h/.config/headwater/headwater.toml"), site()]);
        assert_eq!(names(&[("HOME", "/h"), (CONFIG, "f")]), [(Owner::Named, "f".into()), site()]);
        assert_eq!(names(&[("HOME", "/h"), (CONFIG, "")]), []);
    }

    #[test]
    fn what_others_may_change_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("headwater.toml");
        let is_read = |owner| match read(&path, owner) {
            Content::Read(bytes) => bytes == b"trees = 2",
            Content::Ignored(why) => {
                assert!(why.contains("others may write it") || why.contains("its owner is"), "{why}");
                false
            }
            Content::Absent => panic!("it is there"),
        };
        assert_eq!((read(&path, Owner::User), read(&path, Owner::Site)), (Content::Absent, Content::Absent));
        assert_eq!(read(&path.join("below"), Owner::User), Content::Absent);
        fs::write(&path, "trees = 2").unwrap();
        let is_root = rustix::process::geteuid().is_root();
        for (mode, of_user, of_site) in [(0o644, true, true), (0o664, true, false), (0o646, false, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!((is_read(Owner::User), is_read(Owner::Site)), (of_user, of_site && is_root), "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        if is_root {
            chown(&path, Some(4242), None).unwrap();
            assert!(!is_read(Owner::User) && !is_read(Owner::Site) && !is_read(Owner::Named));
        }
    }

    #[test]
    fn a_directory_that_cant_be_searched_has_no_file_of_the_users() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        std::os::unix::fs::symlink(&home, &home).unwrap();
        let path = home.join("headwater.toml");
        assert_eq!(read(&path, Owner::User), Content::Absent);
        for owner in [Owner::Named, Owner::Site] {
            assert!(matches!(read(&path, owner), Content::Ignored(why) if why.contains("can't be opened")));
        }
    }

    #[test]
    fn only_regular_files_of_limited_size_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("headwater.toml");
        for (bytes, is_read) in [(FILE_BYTES_MAX, true), (FILE_BYTES_MAX + 1, false), (1 << 40, false)] {
            File::create(&path).unwrap().set_len(bytes).unwrap();
            assert_eq!(matches!(read(&path, Owner::User), Content::Read(_)), is_read, "{bytes}");
        }
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for path in [&path, directory.path()] {
            let why = Content::Ignored("it is not a regular file".into());
            assert_eq!(read(path, Owner::User), why);
        }
    }
}
