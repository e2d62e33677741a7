//! Ordinary users, for tests that start as root.

use std::path::Path;

/// An ordinary user: the arguments that precede a command. The user is in the system's database, so that `fusermount3`
/// accepts it.
pub const ORDINARY: [&str; 4] = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups"];

/// Another one.
pub const OTHER_USER: [&str; 4] = ["setpriv", "--reuid=7", "--regid=7", "--clear-groups"];

/// The apparent user of unmapped users' files.
pub const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// The arguments that run a command as such a user where `/dev/fuse` is open to all users: in a mount namespace of its
/// own, so that this machine's stays as it is. `dir` is an own empty directory.
pub fn with_fuse(user: &[&str], dir: &Path) -> Vec<String> {
    let script = format!(
        "mount -t tmpfs -o size=64k,mode=755 hwt {0} && mknod -m 666 {0}/fuse c 10 229 && \
         mount --bind {0}/fuse /dev/fuse && exec {1} \"$@\"",
        dir.display(),
        user.join(" ")
    );
    ["unshare", "--mount", "--propagation", "private", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec()
}
