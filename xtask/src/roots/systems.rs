//! The systems in whose roots there are tests.

use clap::ValueEnum;

use super::root::Contents;
use crate::system::Architecture;

/// A system, which stands for all that have its C library or its processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tested {
    /// Debian 11 with glibc 2.31, as in SLES 15.
    Bullseye,
    /// Debian 12 with glibc 2.36.
    Bookworm,
    /// Debian 13 with glibc 2.41.
    Trixie,
    /// What is newest.
    Sid,
    /// Debian 13 for aarch64, emulated.
    Arm64,
}

impl Tested {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no system is hidden").get_name().to_owned()
    }

    /// What its root is made of.
    pub fn contents(self) -> Contents {
        let here = |name| Contents { name, suite: name, architecture: None, foreign: None, packages: PACKAGES };
        match self {
            Tested::Bullseye => here("bullseye"),
            Tested::Bookworm => here("bookworm"),
            Tested::Trixie => here("trixie"),
            Tested::Sid => here("sid"),
            Tested::Arm64 => Contents {
                name: "arm64",
                suite: "trixie",
                architecture: Some(Architecture::Aarch64),
                foreign: None,
                packages: &[],
            },
        }
    }
}

/// What test programs are built with, and what they start.
const PACKAGES: &[&str] = &[
    "bindfs",
    "e2fsprogs",
    "fuse3",
    "g++",
    "gcc",
    "gdb",
    "gfortran",
    "git",
    "iproute2",
    "libc6-dev",
    "libmpich-dev",
    "libopenmpi-dev",
    "lua5.4",
    "mpich",
    "openmpi-bin",
    "openssh-client",
    "perl",
    "procps",
    "python3",
    "python3-dev",
    "python3-numpy",
    "python3-venv",
    "rsync",
    "sqlite3",
    "strace",
    "xz-utils",
];
