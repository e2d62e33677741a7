//! The command line of `headwater seal`, and of a sealed run.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Text below the help of `headwater seal`.
pub const SEAL_HELP: &str = "\
Examples:
  headwater record -o train.closure -- python3 train.py
  headwater seal -o train.seal train.closure
  headwater run --sealed train.seal -- srun -N 64 python3 train.py

A seal has a digest of each file that the program used of the scope, and is signed. A run with it checks all of \
them, fetches exactly these, and checks again at its end: what differs is named, and the status is 125. Files \
outside of the scope (--show-scope) are not sealed.";

/// The variable of a sealed run.
pub const SEALED: &str = "HEADWATER_SEALED";

/// Options of `headwater seal`.
#[derive(Debug, Args)]
pub struct SealOptions {
    /// The file to write [default: the closure's name, the seal's, and `.seal`, in this directory]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Seal all of each file, also of large ones of which the program read parts: a run by the audit library may fetch all
    #[arg(long)]
    pub whole: bool,

    /// The private key to sign with; it is made if it does not exist [default: ~/.config/headwater/seal.key]
    #[arg(long, value_name = "FILE", env = "HEADWATER_SEAL_KEY", value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,

    /// Where --preload auto keeps what runs used [default: ~/.cache/headwater/closures]
    #[arg(long, value_name = "DIR", env = "HEADWATER_CLOSURES", value_hint = ValueHint::DirPath)]
    pub closures: Option<PathBuf>,

    /// What to seal: a file of `headwater record`, or the name of a closure that `headwater closures` lists
    pub closure: PathBuf,
}

/// The options of a sealed run.
#[derive(Debug, Args)]
pub struct SealedOptions {
    /// Run only if all files are those of this seal (see `headwater seal`), and fail if the program uses others of the scope
    #[arg(long, value_name = "FILE", env = SEALED, value_hint = ValueHint::FilePath,
          help_heading = crate::options::headings::SCOPE)]
    pub sealed: Option<PathBuf>,

    /// Whose seals are accepted beside the user's own: a file with a public key on each line, as `headwater seal` prints
    /// it [default: ~/.config/headwater/signers]
    #[arg(long, value_name = "FILE", env = "HEADWATER_SIGNERS", value_hint = ValueHint::FilePath,
          help_heading = crate::options::headings::SCOPE)]
    pub signers: Option<PathBuf>,
}
