//! PALS's options, from the command line of its `cray mpiexec` and `cray aprun`; ALPS's `aprun`, from
//! "Run Applications Using the aprun Command" of the XC series.

use crate::command::grammar::{Grammar, Style};

/// PALS's `mpiexec`.
pub const PALS: Grammar = Grammar {
    style: Style::Dashes,
    flags: &[
        "V version", "abort-on-failure", "envall", "envnone", "exclusive", "genvall", "genvnone", "h help", "l label",
        "line-buffer", "no-abort-on-failure", "no-label", "no-line-buffer", "no-sstartup", "no-transfer", "shared",
        "sstartup", "transfer",
    ],
    values: &[
        "arch", "configfile", "cpu-bind", "d depth", "envlist", "exclude-hosts", "exclude-tasks", "f hostfile", "file",
        "genvlist", "gpu-bind", "host hosts hostlist", "include-tasks", "mem-bind", "n np", "path", "pmi", "ppn",
        "procinfo-file", "rlimits", "soft", "umask", "wdir",
    ],
    pairs: &["env", "genv"],
    ..Grammar::NONE
};

/// `aprun`.
pub const APRUN: Grammar = Grammar {
    style: Style::Dashes,
    flags: &[
        "B batch-args", "C reconnect", "T sync-output", "V version", "abort-on-failure", "b bypass-app-transfer",
        "help", "no-abort-on-failure", "no-sstartup", "q quiet silent", "ss strict-memory-containment", "sstartup",
        "z zone-sort",
    ],
    values: &[
        "D debug", "E exclude-node-list", "F access-mode", "L node-list", "N pes-per-node", "R relaunch",
        "S pes-per-numa-node", "Z zone-sort-secs", "a architecture", "cc cpu-binding", "cp cpu-binding-file",
        "d cpus-per-pe", "e environment-override", "exclude-node-list-file", "j cpus-per-cu", "l node-list-file",
        "m memory-per-pe", "mpmd-env", "n pes", "p protection-domain", "p-governor", "p-state", "pmi", "procinfo-file",
        "r specialized-cpus", "sl", "sn", "t cpu-time-limit", "wdir",
    ],
    ..Grammar::NONE
};
