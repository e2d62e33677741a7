//! Programs that execute the command behind their options, without other effects on it.

use crate::command::grammar::{Grammar, Style};

/// A wrapper.
#[derive(Clone, Copy, Debug)]
pub struct Wrapper {
    /// Its file's name.
    pub name: &'static str,
    /// Its options.
    pub grammar: Grammar,
    /// Number of arguments between them and the command.
    pub operands: usize,
    /// Whether arguments `NAME=VALUE` may precede the command.
    pub assigns: bool,
}

const PLAIN: Wrapper = Wrapper { name: "", grammar: Grammar::NONE, operands: 0, assigns: false };

/// The wrappers: GNU's and util-linux's, and `numactl`.
pub const WRAPPERS: &[Wrapper] = &[
    Wrapper { name: "env", grammar: ENV, assigns: true, ..PLAIN },
    Wrapper { name: "time", grammar: TIME, ..PLAIN },
    Wrapper { name: "nice", grammar: NICE, ..PLAIN },
    Wrapper { name: "nohup", grammar: Grammar::NONE, ..PLAIN },
    Wrapper { name: "numactl", grammar: NUMACTL, ..PLAIN },
    Wrapper { name: "setsid", grammar: SETSID, ..PLAIN },
    Wrapper { name: "stdbuf", grammar: STDBUF, ..PLAIN },
    Wrapper { name: "taskset", grammar: TASKSET, operands: 1, ..PLAIN },
    Wrapper { name: "timeout", grammar: TIMEOUT, operands: 1, ..PLAIN },
];

const ENV: Grammar = Grammar {
    style: Style::Getopt,
    flags: &["0 null", "i ignore-environment", "list-signal-handling", "v debug"],
    values: &["C chdir", "a argv0", "u unset"],
    joined: &["block-signal", "default-signal", "ignore-signal"],
    ..Grammar::NONE
};

const TIME: Grammar = Grammar {
    style: Style::Getopt,
    flags: &["a append", "p portability", "q quiet", "v verbose"],
    values: &["f format", "o output"],
    ..Grammar::NONE
};

const NICE: Grammar = Grammar {
    style: Style::Getopt,
    // `nice -10` is `nice -n 10`.
    flags: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
    values: &["n adjustment"],
    ..Grammar::NONE
};

const NUMACTL: Grammar = Grammar {
    style: Style::Getopt,
    flags: &["a all", "b balancing", "l localalloc", "localonly"],
    values: &[
        "C physcpubind", "N cpunodebind", "P preferred-many", "c cpubind", "i interleave", "m membind", "p preferred",
        "w weighted-interleave",
    ],
    ..Grammar::NONE
};

const SETSID: Grammar =
    Grammar { style: Style::Getopt, flags: &["c ctty", "f fork", "w wait"], ..Grammar::NONE };

const STDBUF: Grammar =
    Grammar { style: Style::Getopt, values: &["e error", "i input", "o output"], ..Grammar::NONE };

const TASKSET: Grammar =
    Grammar { style: Style::Getopt, flags: &["a all-tasks", "c cpu-list"], ..Grammar::NONE };

const TIMEOUT: Grammar = Grammar {
    style: Style::Getopt,
    flags: &["f foreground", "p preserve-status", "v verbose"],
    values: &["k kill-after", "s signal"],
    ..Grammar::NONE
};
