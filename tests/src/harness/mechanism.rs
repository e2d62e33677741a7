//! The mechanisms by which a program's files reach it.

use std::fs::File;

/// A mechanism of Headwater's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A library in the program.
    Audit,
    /// A mount over the source directories, in a namespace of the node.
    Namespace,
    /// A mount below a prefix of its own.
    Mount,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Mechanism; 3] = [Mechanism::Audit, Mechanism::Namespace, Mechanism::Mount];

    /// Its name for `headwater run --via`.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Audit => "audit",
            Mechanism::Namespace => "namespace",
            Mechanism::Mount => "mount",
        }
    }

    /// True if the kernel shows the files through a mounted file system.
    pub fn is_mounted(self) -> bool {
        self != Mechanism::Audit
    }

    /// `Err` has the reason why it can't be used here.
    pub fn check(self) -> Result<(), String> {
        if !self.is_mounted() {
            return Ok(());
        }
        let device = File::options().read(true).write(true).open("/dev/fuse");
        device.map(drop).map_err(|e| format!("{}: /dev/fuse: {e}", self.name()))
    }
}
