//! PRRTE's options, and those of Open MPI from version 5 on, from `src/mca/schizo/prte/schizo_prte.c`
//! and `src/mca/schizo/ompi/schizo_ompi.c` of PRRTE 3 and 4, and `pmix_cmd_line.c` of PMIx.

use crate::command::grammar::{Grammar, Style};

/// `prterun`, `prun`, `mpirun`, `mpiexec`.
pub const PRRTE: Grammar = Grammar {
    style: Style::Either,
    flags: &[
        "V version", "allow-run-as-root", "bind-to-core", "bootstrap", "bycore", "bynode", "byslot", "continuous",
        "daemonize", "debug", "debug-daemons", "debug-daemons-file", "disable-recovery", "display-allocation",
        "display-comm", "display-comm-finalize", "display-devel-allocation", "display-devel-map", "display-map",
        "do-not-aggregate-help no-aggregate-help", "do-not-connect", "do-not-launch", "enable-recovery",
        "get-stack-traces stack-traces", "leave-session-attached", "merge-stderr-to-stdout", "no-app-prefix",
        "no-ready-msg", "nolocal", "nooversubscribe", "noprefix", "oversubscribe", "p parseable parsable", "pernode",
        "report-bindings", "report-child-jobs-separately", "report-state-on-timeout", "s preload-binary",
        "set-cwd-to-session-dir", "set-sid", "show-progress", "soft", "stop-in-app", "stop-in-init", "stop-on-exec",
        "system-server-first", "system-server-only", "tag-output", "test-suicide", "timestamp-output", "uniform-nodes",
        "use-hwthread-cpus", "v verbose", "xml",
    ],
    values: &[
        "H host", "N", "add-host", "add-hostfile", "am", "amca", "app", "app-pmix-prefix app-prefix", "arch",
        "bind-to bindto", "c n np", "cpu-list", "cpu-set", "cpus-per-proc", "cpus-per-rank", "default-hostfile",
        "display", "dvm-uri", "exec-agent", "file", "forward-signals", "gpu-support", "hostfile", "initial-errhandler",
        "keepalive", "launch-agent", "machinefile", "map-by mapby", "max-restarts", "max-vm-size", "memory-alloc-kinds",
        "namespace", "npernode", "npersocket", "num-connect-retries", "output", "output-directory", "output-filename",
        "path", "personality", "pid", "pmix-prefix", "ppr", "prefix", "preload-files", "pset", "rank-by rankby",
        "rankfile", "report-pid", "report-uri", "rtos runtime-options", "spawn-timeout", "stdin", "stream-buffering",
        "timeout", "tmpdir", "tune", "unset-env", "wait-to-connect", "wd", "wdir", "with-ft", "x", "xterm",
    ],
    joined: &["fwd-environment", "h help", "output-proctable"],
    twos: &["append-env", "gmca", "gomca", "gpmixmca", "gprtemca", "mca", "omca", "pmixmca", "prepend-env", "prtemca"],
    // With a value in one personality or release and without in another.
    perhaps: &["display-topo", "dvm"],
    ..Grammar::NONE
};
