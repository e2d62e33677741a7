//! A copy of a root that a script may change, and that is gone when the script ends.

use std::path::Path;

use anyhow::Result;

use crate::roots::Root;
use crate::shell::Shell;

/// Becomes the root of its own mounts and processes, and runs a script there. All that it mounts ends with it.
const ENTER: &str = r#"
base=$1 copy=$2 files=$3 scripts=$4 script=$5
mount --make-rprivate /
mount -t tmpfs tmpfs "$copy"
mkdir "$copy/upper" "$copy/work" "$copy/root"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$copy/upper,workdir=$copy/work" "$copy/root"
cd "$copy/root"
mkdir old files scripts
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs dev/shm
mount --bind "$files" files
mount --bind "$scripts" scripts
cp /etc/resolv.conf etc/resolv.conf
pivot_root . old
umount -l /old
rmdir /old
exec env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 sh -eu "/scripts/$script"
"#;

/// Runs a script of `scripts` in a copy of the root, where `files` is /files. Returns its output.
pub fn run(shell: &Shell, root: &Root<'_>, files: &Path, scripts: &Path, script: &str) -> Result<String> {
    let base = root.outside("/");
    let copy = base.with_extension("copy");
    std::fs::create_dir_all(&copy)?;
    let mut unshare = shell.command("unshare");
    unshare.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER, "enter"]);
    shell.run(unshare.arg(base).arg(copy).arg(files).arg(scripts).arg(script))
}
