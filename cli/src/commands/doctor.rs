//! `headwater doctor`: checks what this machine supports and lacks.

use std::io::stdout;
use std::path::Path;

use anyhow::Result;
use clap::CommandFactory;
use headwater_figures::text::wants_colours;

use crate::config::defaults::Defaults;
use crate::doctor::check::{Check, Mechanisms};
use crate::doctor::{self, leftovers, render};
use crate::message::show;
use crate::options::SweepOptions;
use crate::options::{CommandLine, DoctorOptions};

/// Checks this machine, and prints the findings. Returns the exit status: 0 if a mechanism works.
pub fn doctor(options: &DoctorOptions) -> Result<u8> {
    if let Some(file) = &options.site {
        return site(file, options.json);
    }
    let removed = if options.fix { leftovers::remove(options.store.as_deref()) } else { Vec::new() };
    let findings = doctor::examine(options, removed);
    if options.json {
        show(stdout(), format_args!("{}\n", serde_json::to_string_pretty(&findings)?));
    } else {
        show(stdout(), render::Text { findings: &findings, has_colours: wants_colours() });
    }
    let Mechanisms { namespace, audit, mount } = findings.mechanisms;
    Ok(u8::from(!(namespace || audit || mount)))
}

/// Checks this node's part of a site export, and prints the findings. Returns the exit status: 0 if all is well.
fn site(file: &Path, is_json: bool) -> Result<u8> {
    let checks = doctor::site::examine(file);
    if is_json {
        let findings = serde_json::json!({ "checks": checks });
        show(stdout(), format_args!("{}\n", serde_json::to_string_pretty(&findings)?));
    } else {
        show(stdout(), render::Lines { checks: &checks, has_colours: wants_colours() });
    }
    Ok(u8::from(!checks.iter().all(Check::is_ok)))
}

/// Removes leftovers of dead sessions on this machine, without output. Where no store is named, these may lie in a
/// default one or in that of the site's file.
pub fn sweep(options: &SweepOptions) -> u8 {
    leftovers::remove(options.store.as_deref());
    if options.store.is_none()
        && let Some(store) = Defaults::read(&CommandLine::command()).value("store")
    {
        leftovers::remove(Some(Path::new(store)));
    }
    0
}
