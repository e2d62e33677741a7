//! Slurm's options: of releases 20.11 to 25.05, from `src/common/slurm_opt.c` and the manual pages.
//!
//! Plugins (SPANK) may add long options. A name that took nothing in old releases and an optional joined
//! value in new ones is among the latter.

use crate::command::grammar::{Grammar, Style};

/// `srun`'s options that run the programs in a container: its own, and those of the plugin pyxis.
pub const CONTAINERS: [&str; 4] = ["container", "container-id", "container-image", "container-name"];

/// `srun`. Options of the plugin pyxis are from its README.
pub const SRUN: Grammar = Grammar {
    style: Style::Getopt,
    flags: &[
        "async", "consolidate-segments", "container-entrypoint", "container-mount-home", "container-readonly",
        "container-remap-root", "container-writable", "no-container-entrypoint", "no-container-mount-home",
        "no-container-remap-root", "contiguous", "debugger-test", "X disable-status", "exact", "h help", "H hold",
        "interactive", "l label", "multi-prog", "Z no-allocate", "O overcommit", "s oversubscribe", "E preserve-env",
        "Q quiet", "quit-on-interrupt", "reboot", "share", "spread-job", "spread-segments", "stepmgr", "test-only",
        "u unbuffered", "usage", "use-min-nodes", "v verbose", "V version", "wait-for-children", "whole",
    ],
    values: &[
        "accel-bind", "A account", "acctg-freq", "autocomplete", "bb", "bbf", "bcast-exclude", "b begin", "D chdir",
        "cluster", "cluster-constraint", "M clusters", "comment", "C constraint", "container", "container-env",
        "container-id", "container-image", "container-mounts", "container-name", "container-save", "container-workdir",
        "context", "S core-spec", "cores-per-socket", "cpu-bind cpu_bind", "cpu-freq", "cpus-per-gpu",
        "c cpus-per-task", "deadline", "delay-boot", "d dependency", "m distribution", "epilog", "e error", "x exclude",
        "export", "extra", "B extra-node-info", "gid", "gpu-bind", "gpu-freq", "G gpus", "gpus-per-node",
        "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "het-group", "hint", "i input", "J job-name", "jobid",
        "L licenses", "mail-type", "mail-user", "mcs-label", "mem", "mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus",
        "mpi", "msg-timeout", "network", "F nodefile", "w nodelist", "N nodes", "n ntasks", "ntasks-per-core",
        "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "ntasks-per-tres", "open-mode", "o output",
        "pack-group", "p partition", "power", "prefer", "priority", "profile", "prolog", "q qos", "r relative",
        "reservation", "segment", "signal", "slurmd-debug", "sockets-per-node", "switches", "task-epilog",
        "task-prolog", "tasks-per-node", "thread-spec", "T threads", "threads-per-core", "t time", "time-min", "tmp",
        "treewidth", "tres-bind", "tres-per-task", "uid", "W wait", "wckey",
    ],
    joined: &[
        "bcast", "compress", "exclusive", "external-launcher", "I immediate", "K kill-on-bad-exit", "nice", "k no-kill",
        "oom-kill-step", "overlap", "propagate", "pty", "resv-ports", "send-libs", "x11",
    ],
    ..Grammar::NONE
};

/// `salloc`.
pub const SALLOC: Grammar = Grammar {
    style: Style::Getopt,
    flags: &[
        "bell", "consolidate-segments", "contiguous", "h help", "H hold", "no-bell", "no-shell", "O overcommit",
        "s oversubscribe", "Q quiet", "reboot", "share", "spread-job", "spread-segments", "stepmgr", "usage",
        "use-min-nodes", "v verbose", "V version",
    ],
    values: &[
        "A account", "acctg-freq", "autocomplete", "bb", "bbf", "b begin", "D chdir", "cluster", "cluster-constraint",
        "M clusters", "comment", "C constraint", "container", "container-id", "context", "S core-spec",
        "cores-per-socket", "cpu-freq", "cpus-per-gpu", "c cpus-per-task", "deadline", "delay-boot", "d dependency",
        "m distribution", "x exclude", "extra", "B extra-node-info", "gid", "gpu-bind", "gpu-freq", "G gpus",
        "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "hint", "J job-name", "L licenses",
        "mail-type", "mail-user", "mcs-label", "mem", "mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus", "network",
        "F nodefile", "w nodelist", "N nodes", "n ntasks", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node",
        "ntasks-per-socket", "ntasks-per-tres", "p partition", "power", "prefer", "priority", "profile", "q qos",
        "reservation", "segment", "signal", "sockets-per-node", "switches", "tasks-per-node", "thread-spec",
        "threads-per-core", "t time", "time-min", "tmp", "tres-bind", "tres-per-task", "uid", "wait-all-nodes", "wckey",
    ],
    joined: &[
        "exclusive", "get-user-env", "I immediate", "K kill-command", "nice", "k no-kill", "oom-kill-step", "x11",
    ],
    ..Grammar::NONE
};
