//! The systems that programs and libraries are built for: this machine, or every one that releases support.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::ValueEnum;

/// The name of the repository's root in released files, wherever they are built.
pub const SOURCES: &str = "/usr/src/headwater";

/// What is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// This machine, with its C library.
    Here,
    /// Linux of this architecture with glibc 2.28 or newer.
    Released(Architecture),
}

/// A processor architecture that releases support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Architecture {
    #[value(name = "x86_64")]
    X86_64,
    Aarch64,
}

impl Architecture {
    /// As `uname -m` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
        }
    }

    /// Debian's name.
    pub fn debian(self) -> &'static str {
        match self {
            Architecture::X86_64 => "amd64",
            Architecture::Aarch64 => "arm64",
        }
    }

    /// The prefix of its compilers, and the directory of its libraries below `lib`.
    pub fn triplet(self) -> String {
        format!("{}-linux-gnu", self.name())
    }

    /// The compiler's name of the target.
    pub fn rust_target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }

    /// The directory of the C library and the headers that releases are built against, in the repository.
    pub fn sysroot(self) -> PathBuf {
        PathBuf::from("target/sysroot").join(self.name())
    }

    /// That of this machine.
    pub fn here() -> Result<Architecture> {
        let name = std::env::consts::ARCH;
        Architecture::from_str(name, false).map_err(|_| anyhow!("no releases are built for {name}"))
    }
}

impl System {
    /// Its processors.
    pub fn architecture(self) -> Result<Architecture> {
        match self {
            System::Here => Architecture::here(),
            System::Released(architecture) => Ok(architecture),
        }
    }

    /// The directory of what is built for it.
    pub fn directory(self) -> PathBuf {
        match self {
            System::Here => "target".into(),
            System::Released(architecture) => PathBuf::from("target/releases").join(architecture.name()),
        }
    }

    /// The C compiler and the arguments that make it use the system's headers and libraries, in the repository at
    /// `root`.
    pub fn compiler(self, root: &Path) -> (String, Vec<String>) {
        let System::Released(architecture) = self else { return ("gcc".into(), Vec::new()) };
        let (repository, root, triplet) = (root, root.join(architecture.sysroot()), architecture.triplet());
        let below = |path: &str| format!("{}/{path}/{triplet}", root.display());
        let arguments = vec![
            format!("--sysroot={}", root.display()),
            // Debian's compiler finds its own libraries first.
            format!("-B{}", below("usr/lib")),
            format!("-L{}", below("usr/lib")),
            format!("-L{}", below("lib")),
            format!("-ffile-prefix-map={}={SOURCES}", repository.display()),
        ];
        (format!("{triplet}-gcc"), arguments)
    }
}
