//! Prints and writes the summary.

use std::ffi::OsStr;
use std::io::{IsTerminal, stderr};

use crate::message::{log, show};
use crate::options::run::RunOptions;
use crate::summary::Summary;
use crate::usage;
use crate::via::Mechanism;

/// Prints and writes the summary of this program's run, by the user's options, and logs it, by the site's.
pub fn report(options: &RunOptions, program: &OsStr, summary: &Summary) {
    usage::record(program, summary, options.service.verbose);
    if options.prints_summary(stderr().is_terminal()) {
        show(stderr(), summary);
    } else {
        if let Some((why, nodes)) = &summary.tcp_instead {
            log(format_args!("warning: {nodes} of {} nodes used TCP in place of libfabric: {why}", summary.nodes));
        }
        if let Some((why, nodes)) = &summary.interface_failures {
            log(format_args!("warning: on {nodes} of {} nodes links did without an interface: {why}", summary.nodes));
        }
    }
    if options.service.numa_replicas && summary.off.is_none() && summary.via != Mechanism::AUDIT_ALONE.name() {
        log(format_args!(
            "note: --numa-replicas does nothing with --via {}: the kernel caches a mounted file once. Use --via audit for copies",
            summary.via
        ));
    }
    if let Some(Err(e)) = options.summary_json.as_ref().map(|file| summary.write_json(file)) {
        log(format_args!("{e:#}. Name a file that can be written with --summary-json"));
    }
}
