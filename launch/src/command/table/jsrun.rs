//! JSM's options, from IBM's command reference and the tables of tools that wrap `jsrun`. An option has no
//! rule if these differ on whether it takes a value.

use crate::command::grammar::{Grammar, Style};

/// `jsrun`.
pub const JSRUN: Grammar = Grammar {
    style: Style::Getopt,
    flags: &["? help", "V version", "usage"],
    values: &[
        "A allocate_only", "D env_no_propagate", "E env", "F env_eval", "H launch_node_task", "I stdin_rank",
        "J use_reservation", "K rs_per_socket", "L use_spindle", "M smpiargs", "P pre_post_exec", "S save_resources",
        "U use_resources", "X exit_on_error", "Z progress", "a tasks_per_rs", "b bind", "c cpu_per_rs",
        "d launch_distribution", "e stdio_mode", "erf_input", "erf_output", "erf_output_pidx", "f appfile",
        "g gpu_per_rs", "h chdir", "k stdio_stderr", "l latency_priority", "m memory_per_rs", "n nrs", "o stdio_stdout",
        "p np", "print_placement", "r rs_per_host", "t stdio_input", "x exclude_hosts",
    ],
    perhaps: &["i immediate", "u debug"],
    ..Grammar::NONE
};
