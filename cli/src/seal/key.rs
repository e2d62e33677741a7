//! Keys that sign seals, and those that are believed.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use headwater_closure::sealed::{Signature, Signed, bytes, hexadecimal};

use super::options::SealedOptions;
use crate::secret::{self, Secret};

/// The names in the user's directory of settings.
const KEY: &str = "seal.key";
const SIGNERS: &str = "signers";
const SECRET: Secret = Secret { name: "the key for seals", hint: "`headwater seal` makes one", option: "--key" };

/// Returns a file in the user's directory of settings.
fn default_file(name: &str) -> Result<PathBuf> {
    let settings = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|directory| directory.is_absolute());
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let settings = settings.or_else(home).context("there is no home directory: name the key with --key")?;
    Ok(settings.join("headwater").join(name))
}

/// Returns the key of this file, or the user's; it is made if it does not exist.
pub fn own(named: Option<&Path>) -> Result<SigningKey> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => default_file(KEY)?,
    };
    if matches!(fs::symlink_metadata(&path), Err(error) if error.kind() == ErrorKind::NotFound) {
        secret::make(&path, 0o700, "Name another file with --key")?;
    }
    read(&path)
}

fn read(path: &Path) -> Result<SigningKey> {
    let digits = secret::read(path, SECRET)?;
    let secret =
        bytes(&digits).with_context(|| format!("{} is malformed: expected 64 hexadecimal digits", path.display()))?;
    Ok(SigningKey::from_bytes(&secret))
}

/// Signs the text of a seal.
pub fn sign(key: &SigningKey, text: &str) -> Signature {
    Signature { signer: key.verifying_key().to_bytes(), bytes: key.sign(text.as_bytes()).to_bytes() }
}

/// Checks that a seal was signed by the user, or by one of the accepted signers.
///
/// # Errors
/// It was not; the text names the next step.
pub fn verify(signed: &Signed<'_>, options: &SealedOptions) -> Result<()> {
    let Signature { signer, bytes: signature } = signed.signature;
    let shown = hexadecimal(&signer);
    let verifies = VerifyingKey::from_bytes(&signer)
        .and_then(|key| key.verify_strict(signed.text, &ed25519_dalek::Signature::from_bytes(&signature)));
    verifies.map_err(|_| anyhow!("it was changed after it had been signed"))?;
    let file = match &options.signers {
        Some(file) => file.clone(),
        None => default_file(SIGNERS)?,
    };
    let own = default_file(KEY).and_then(|path| read(&path)).map(|key| key.verifying_key().to_bytes());
    if own.is_ok_and(|own| own == signer) || accepts(&file, options.signers.is_some(), &signer)? {
        return Ok(());
    }
    Err(anyhow!(
        "it is signed by {shown}, which you have not accepted: if you trust that key's owner, add it to {}",
        file.display()
    ))
}

/// Returns whether a file of public keys has this one. What follows a key on its line is a comment.
fn accepts(file: &Path, must_exist: bool, signer: &[u8; 32]) -> Result<bool> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => String::new(),
        text => text.with_context(|| format!("{} can't be read", file.display()))?,
    };
    for (number, line) in (1..).zip(text.lines()) {
        let Some(word) = line.split_ascii_whitespace().next().filter(|word| !word.starts_with('#')) else { continue };
        let key = bytes::<32>(word);
        ensure!(key.is_some(), "{}, line {number}: expected a public key of 64 hexadecimal digits", file.display());
        if key == Some(*signer) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_closure::sealed::Seal;

    /// Verifies a seal of `key`, of which `change` makes another text.
    fn verified(key: &SigningKey, signers: &str, change: impl Fn(String) -> String) -> Result<()> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("signers");
        fs::write(&file, signers).unwrap();
        let text = Seal { title: "a".into(), ..Seal::default() }.text();
        let text = change(text.clone() + &sign(key, &text).line());
        let signed = Seal::parse(text.as_bytes()).unwrap();
        verify(&signed, &SealedOptions { sealed: None, signers: Some(file) })
    }

    #[test]
    fn only_accepted_signers_are_believed() {
        let key = SigningKey::from_bytes(&[5; 32]);
        let public = hexadecimal(&key.verifying_key().to_bytes());
        let same = |text: String| text;
        let refused = |signers: &str, change: &dyn Fn(String) -> String, why: &str| {
            let error = format!("{:#}", verified(&key, signers, change).unwrap_err());
            assert!(error.contains(why), "{error}");
        };
        verified(&key, &format!("# ours\n\n{public} the team's\n"), same).unwrap();
        refused("", &same, &public);
        refused(&"00".repeat(32), &same, &public);
        refused(&format!("# {public}\n"), &same, &public);
        refused("me\n", &same, "line 1: expected a public key");
        refused(&public, &|text| text.replacen("# a", "# b", 1), "was changed");
        let other = hexadecimal(&SigningKey::from_bytes(&[6; 32]).verifying_key().to_bytes());
        refused(&other, &|text| text.replace(&public, &other), "was changed");
    }

    #[test]
    fn a_key_is_made_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/seal.key");
        let key = own(Some(&path)).unwrap();
        assert_eq!(own(Some(&path)).unwrap().to_bytes(), key.to_bytes());
    }
}
