//! Files with 32 secret bytes, as 64 hexadecimal digits, that only their user may read.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use headwater_closure::sealed::hexadecimal;

use crate::session::directory::random;

/// Limit of a file, in bytes.
const FILE_BYTES_MAX: u64 = 128;

/// What a file is for, and what to do without one.
#[derive(Clone, Copy, Debug)]
pub struct Secret {
    /// As messages have it, such as "the site's key".
    pub name: &'static str,
    /// How to get one.
    pub hint: &'static str,
    /// The option that names another.
    pub option: &'static str,
}

/// Makes a file with random bytes; directories are made with these permissions. `hint`: what to do if that fails.
///
/// # Errors
/// It exists already, or can't be made.
pub fn make(path: &Path, directory_mode: u32, hint: &str) -> Result<()> {
    let shown = path.display();
    if let Some(directory) = path.parent() {
        let made = fs::DirBuilder::new().recursive(true).mode(directory_mode).create(directory);
        made.with_context(|| format!("{} can't be made", directory.display()))?;
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.with_context(|| format!("the key {shown} can't be made. {hint}"))?;
    let written = random::<32>().and_then(|secret| {
        file.write_all(format!("{}\n", hexadecimal(&secret)).as_bytes()).and_then(|()| file.sync_all())?;
        Ok(())
    });
    if written.is_err() {
        // A part of a key would be in the way of a whole one.
        let _ = fs::remove_file(path);
    }
    written.with_context(|| format!("the key {shown} can't be written"))
}

/// Reads the digits, not checked yet.
///
/// # Errors
/// The file is missing, others may read it, or it belongs to another user.
pub fn read(path: &Path, Secret { name, hint, option }: Secret) -> Result<String> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("{name} {shown} can't be read. {hint}"))?;
    let metadata = file.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    ensure!(metadata.is_file(), "{name} {shown} is not a file; name one with {option}");
    ensure!(
        metadata.uid() == user,
        "{name} {shown} belongs to user {}, and this is user {user}: `chown {user} {shown}`",
        metadata.uid()
    );
    if metadata.mode() & 0o077 != 0 {
        bail!("others can read {name} {shown}: `chmod 600 {shown}`, and make a new one if others did")
    }
    let mut digits = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut digits).with_context(|| format!("{shown} can't be read"))?;
    Ok(digits.trim().to_owned())
}
