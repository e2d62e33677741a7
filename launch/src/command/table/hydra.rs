//! Hydra's options: MPICH's from `src/pm/hydra/mpiexec/options.c`, Intel's from the manual page of its
//! `mpiexec.hydra`. Intel's own options with an optional value have no rule.

use crate::command::grammar::{Grammar, Style};

/// `mpiexec.hydra`, `mpiexec`, `mpirun`.
pub const HYDRA: Grammar = Grammar {
    style: Style::Hydra,
    flags: &[
        "aps", "cleanup", "disable-auto-cleanup", "disable-hostname-propagation", "disable-x", "enable-auto-cleanup",
        "enable-hostname-propagation", "enable-x", "envall", "envnone", "gdb", "gdb-ia", "genvall", "genvnone",
        "h help", "hybrid-hosts", "ilp64", "info", "l prepend-rank", "mps", "no-cleanup", "noconf", "nolocal",
        "ordered-output", "pmi-aggregate", "pmi-noaggregate", "pmi-port", "prefork", "print-all-exitcodes",
        "print-rank-map", "profile", "rr", "silent-abort", "skip-launch-node", "trace-collectives", "trace-imbalance",
        "trace-pt2pt", "tv", "v verbose debug", "version",
        // Fabrics.
        "dapl", "ib", "mx", "ofi", "psm", "psm2", "rdma", "tmi",
    ],
    values: &[
        "bind-to binding", "bootstrap launcher", "bootstrap-exec launcher-exec", "bootstrap-exec-args", "branch-count",
        "ckpoint-interval", "ckpoint-num", "ckpoint-prefix", "ckpointlib", "configfile", "demux", "envlist",
        "errfile errfile-pattern", "f hostfile machinefile", "g gpus-per-proc", "gdba", "genvlist", "gpath",
        "gpu-subdevs-per-proc", "grr perhost ppn", "gtool", "gtoolfile", "gumask", "gwdir", "host hostlist hosts",
        "hostos", "iface", "localhost", "machine machines machinelist", "map-by", "membind", "memory-alloc-kinds",
        "n np", "nameserver", "order-nodes", "outfile outfile-pattern", "output-from", "path", "pmi-connect",
        "pmi_args", "prepend-pattern", "rankmap", "rmk", "s", "tmpdir", "topolib", "tva", "umask", "use-app-topology",
        "usize", "wdir",
    ],
    pairs: &["env", "genv"],
    perhaps: &["check-mpi check_mpi", "t trace", "tune"],
    ..Grammar::NONE
};
