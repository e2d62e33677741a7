//! A site's key: a file with 64 hexadecimal digits that only its user may read.

use std::io::stdout;
use std::path::Path;

use anyhow::{Result, anyhow};
use headwater_daemon::SessionKey;

use crate::message::show;
use crate::secret::{self, Secret};
use crate::site_export::options::KeyOptions;

/// Makes a key; returns the exit status.
///
/// # Errors
/// The file exists already, or can't be made.
pub fn make(options: &KeyOptions) -> Result<u8> {
    let shown = options.file.display();
    secret::make(&options.file, 0o755, "If nodes use an existing key, copy that; otherwise remove it first")?;
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
    let hint = "`headwater key` makes one, on one node; copy it";
    let digits = secret::read(path, Secret { name: "the site's key", hint, option: "--key" })?;
    SessionKey::try_from(digits).map_err(|error| {
        anyhow!("the site's key {} is malformed ({error}); copy the file of another node", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_that_was_made_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let options = KeyOptions { file: directory.path().join("etc/key") };
        assert_eq!(make(&options).unwrap(), 0);
        let key = read(&options.file).unwrap();
        assert!(format!("{:#}", make(&options).unwrap_err()).contains("can't be made"), "a key is not replaced");
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
