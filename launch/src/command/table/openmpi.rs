//! Open MPI's options up to version 4, from its manual page and `orte/mca/schizo/ompi/schizo_ompi.c`.

use crate::command::grammar::{Grammar, Style};

/// `mpirun`, `mpiexec`, `orterun`.
pub const OPEN_MPI: Grammar = Grammar {
    style: Style::Dashes,
    flags: &[
        "allow-run-as-root", "bind-to-core", "bind-to-socket", "bycore", "bynode", "byslot", "continuous", "crdebug",
        "d debug-devel", "debug", "debug-daemons", "debug-daemons-file", "disable-recovery", "display-allocation",
        "display-devel-allocation", "display-devel-map", "display-diffable-map", "display-map", "display-topo",
        "do-not-launch", "do-not-resolve", "dvm", "enable-instant-on-support", "enable-recovery", "fwd-mpirun-port",
        "get-stack-traces", "index-argv-by-rank", "leave-session-attached", "merge-stderr-to-stdout", "nolocal",
        "nooversubscribe", "noprefix", "novm", "output-proctable", "oversubscribe", "pernode", "q quiet",
        "report-bindings", "report-child-jobs-separately", "report-state-on-timeout", "s preload-binary",
        "set-cwd-to-session-dir", "show-progress", "tag-output", "terminate", "timestamp-output", "tv",
        "use-hwthread-cpus", "use-regexp", "v verbose", "V version", "xml",
    ],
    values: &[
        "H host", "N", "am", "amca", "app", "bind-to", "c n np", "cf cartofile", "cpu-list", "cpu-set",
        "cpus-per-proc cpus-per-rank", "debugger", "default-hostfile", "h help", "hnp", "hostfile machinefile",
        "launch-agent", "map-by", "max-restarts", "max-vm-size", "npernode", "npersocket", "ompi-server",
        "output-filename", "path", "personality", "ppr", "prefix", "preload-files", "rank-by", "report-events",
        "report-pid", "report-uri", "rf rankfile", "slot-list", "sstore-load", "stdin", "timeout", "tune", "wd wdir",
        "x", "xml-file", "xterm",
    ],
    twos: &["mca", "gmca"],
    ..Grammar::NONE
};
