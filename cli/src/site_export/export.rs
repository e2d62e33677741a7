//! The exported directory on a reader.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Checks that all users can enter the exported directory.
pub fn check_export(export: &Path) -> Result<()> {
    let shown = export.display();
    let canonical = export.canonicalize().with_context(|| format!("--export {shown} can't be read"))?;
    ensure!(
        canonical == export,
        "--export {shown} is a link to {0}: name that on all nodes, and join with --at {shown}",
        canonical.display()
    );
    ensure!(canonical.is_dir(), "--export {shown} is not a directory");
    for directory in export.ancestors() {
        let mode =
            fs::metadata(directory).with_context(|| format!("{} can't be examined", directory.display()))?.mode();
        ensure!(
            mode & 0o001 != 0,
            "--export {shown}: not all users may enter {} (mode {:o}), so no file is readable for all users. \
             `chmod o+x` it, or export another directory",
            directory.display(),
            mode & 0o7777
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn an_unreadable_export_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        fs::create_dir(base.join("sw")).unwrap();
        symlink("sw", base.join("link")).unwrap();
        let refused = |path: &str, why: &str| {
            let error = format!("{:#}", check_export(&base.join(path)).unwrap_err());
            assert!(error.contains(why), "{error}");
        };
        mode(&base, 0o700);
        refused("sw", "not all users may enter");
        mode(&base, 0o711);
        mode(&base.join("sw"), 0o755);
        check_export(&base.join("sw")).unwrap();
        refused("link", "--at");
        refused("none", "can't be read");
        mode(&base.join("sw"), 0o750);
        refused("sw", "mode 750");
    }
}
