//! Flux's options, from the manual pages of flux-core and `src/bindings/python/flux/cli/`. Plugins may
//! add long options.

use crate::command::grammar::{Grammar, Style};

/// `flux`, before its subcommand.
pub const FLUX: Grammar = Grammar {
    style: Style::Getopt,
    flags: &["V version", "h help", "p parent", "r root", "v verbose"],
    ..Grammar::NONE
};

/// `flux run`, `flux submit` and `flux bulksubmit`.
pub const FLUX_RUN: Grammar = Grammar {
    style: Style::Getopt,
    flags: &[
        "debug-emulate", "dry-run", "h help", "jps", "l label-io", "progress", "quiet", "shuffle", "u unbuffered",
        "v verbose", "wait", "watch", "x exclusive",
    ],
    values: &[
        "B bank", "N nodes", "add-file", "bcc", "begin-time", "c cores-per-task", "cc", "cores", "cwd", "define",
        "dependency", "env", "env-file", "env-remove", "error", "flags", "g gpus-per-task", "gpus-per-node", "input",
        "job-name", "log", "log-stderr", "n ntasks", "o setopt", "output", "q queue", "requires", "rlimit", "S setattr",
        "sep", "signal", "t time-limit", "taskmap", "tasks-per-core", "tasks-per-node", "urgency", "wait-event",
    ],
    ..Grammar::NONE
};

/// `flux alloc`.
pub const FLUX_ALLOC: Grammar = Grammar {
    style: Style::Getopt,
    flags: &[
        "bg", "debug-emulate", "dry-run", "h help", "l label-io", "quiet", "u unbuffered", "v verbose", "x exclusive",
    ],
    values: &[
        "B bank", "N nodes", "S setattr", "add-file", "begin-time", "broker-opts", "c cores-per-slot", "conf", "cwd",
        "dependency", "env", "env-file", "env-remove", "error", "flags", "g gpus-per-slot", "input", "job-name",
        "n nslots", "o setopt", "output", "q queue", "requires", "rlimit", "signal", "t time-limit", "urgency",
    ],
    perhaps: &["dump"],
    ..Grammar::NONE
};

/// `flux start`.
pub const FLUX_START: Grammar = Grammar {
    style: Style::Getopt,
    flags: &["X noexec", "h help", "sysconfig", "v verbose"],
    values: &[
        "S setattr", "broker-opts o", "c config-path", "caliper-profile", "s size test-size", "test-exit-mode",
        "test-exit-timeout", "test-hosts", "test-pmi-clique", "test-rundir", "test-start-mode", "wrap",
    ],
    joined: &["r recovery"],
    ..Grammar::NONE
};

/// `flux proxy`, which precedes a job or an address, and then the command.
pub const FLUX_PROXY: Grammar = Grammar {
    style: Style::Getopt,
    flags: &["f force", "h help", "n nohup", "reconnect"],
    values: &["e env"],
    ..Grammar::NONE
};
