//! A site's key: a file with 64 hexadecimal digits that only its user may read.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write, stdout};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use headwater_daemon::SessionKey;

use crate::message::show;
use crate::session::directory::random;
use crate::site_export::options::KeyOptions;

/// Limit of a key file, in bytes.
const FILE_BYTES_MAX: u64 = 128;

/// Makes a key; returns the exit status.
///
/// # Errors
/// The file exists already, or can't be made.
pub fn make(options: &KeyOptions) -> Result<u8> {
    let shown = options.file.display();
    if let Some(directory) = options.file.parent() {
        fs::create_dir_all(directory).with_context(|| format!("{} can't be made", directory.display()))?;
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&options.file);
    let mut file = file.with_context(|| {
        format!("the key {shown} can't be made. If nodes use an existing key, copy that; otherwise remove it first")
    })?;
    let digits = String::from(SessionKey(random()?));
    file.write_all(format!("{digits}\n").as_bytes())
        .and_then(|()| file.sync_all())
        .with_context(|| format!("the key {shown} can't be written"))?;
    show(
        stdout(),
        format_args!("made {shown}; every node of the site needs a copy that only its daemon's user can read\n"),
    );
    Ok(0)
}

/// Reads a key.
///
/// # Errors
/// The file is missing, others may read it, or it belongs to another user.
pub fn read(path: &Path) -> Result<SessionKey> {
    let shown = path.display();
    let file = File::open(path).with_context(|| {
        format!("the site's key {shown} can't be read. `headwater key` makes one, on one node; copy it")
    })?;
    let metadata = file.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    ensure!(metadata.is_file(), "the site's key {shown} is not a file; name one with --key");
    ensure!(
        metadata.uid() == user,
        "the site's key {shown} belongs to user {}, and this is user {user}: `chown {user} {shown}`",
        metadata.uid()
    );
    if metadata.mode() & 0o077 != 0 {
        bail!("others can read the site's key {shown}: `chmod 600 {shown}`, and make a new one if others did")
    }
    let mut digits = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut digits).with_context(|| format!("{shown} can't be read"))?;
    let key = SessionKey::try_from(digits.trim().to_owned());
    key.map_err(|error| anyhow!("the site's key {shown} is malformed ({error}); copy the file of another node"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_that_was_made_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let options = KeyOptions { file: directory.path().join("etc/key") };
        assert_eq!(make(&options).unwrap(), 0);
        let key = read(&options.file).unwrap();
        assert!(make(&options).unwrap_err().to_string().contains("can't be made"), "a key is not replaced");
        assert!(read(&options.file).unwrap() == key);
        assert_eq!(fs::metadata(&options.file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_others_may_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        let refused = |why: &str| {
            let error = format!("{:#}", read(&file).unwrap_err());
            assert!(error.contains(why), "{error}");
        };
        refused("headwater key");
        fs::write(&file, "00".repeat(32)).unwrap();
        for mode in [0o640, 0o604, 0o610] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            refused("chmod 600");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read(&file).is_ok());
        fs::write(&file, "00".repeat(31)).unwrap();
        refused("expected 64 hexadecimal digits");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(7), None).unwrap();
            refused("belongs to user 7");
        }
    }
}
