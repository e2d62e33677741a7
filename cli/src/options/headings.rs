//! Headings under which `--help` shows options.

/// Which files are served.
pub const SCOPE: &str = "Scope";
/// By which mechanism files reach a program.
pub const MECHANISM: &str = "Mechanism";
/// How files travel between nodes.
pub const OVERLAY: &str = "Overlay";
/// Where nodes store their copies.
pub const STORE: &str = "Store";
/// How nodes find and reach each other.
pub const RENDEZVOUS: &str = "Rendezvous";
/// How a node's processes are made.
pub const RANKS: &str = "Ranks";
/// The I/O library.
pub const MPI_IO: &str = "MPI I/O";
/// What is printed and written.
pub const OUTPUT: &str = "Output";
/// On which processors processes run.
pub const PLACEMENT: &str = "Placement";
/// What `headwater spawn` forks processes from.
pub const ZYGOTES: &str = "Zygotes";
/// The program whose times are computed.
pub const WORKLOAD: &str = "Workload";
/// The machine on which it is assumed to run.
pub const MODEL: &str = "Model";
