//! `headwater config`: shows the defaults of options, and where they come from.

use std::io::stdout;

use anyhow::Result;
use clap::CommandFactory;

use crate::config::defaults::{Defaults, variable};
use crate::config::options::ConfigOptions;
use crate::config::report;
use crate::message::{log, show};
use crate::options::CommandLine;

/// Executes the command. With `--check`, returns 1 if something is wrong in a file.
pub fn config(options: &ConfigOptions) -> Result<u8> {
    let defaults = Defaults::read(&CommandLine::command());
    if options.json {
        let text = serde_json::to_string_pretty(&report::json(&defaults, &variable))?;
        show(stdout(), format_args!("{text}\n"));
        return Ok(0);
    }
    if options.files {
        show(stdout(), report::files(&defaults));
    } else if !options.check {
        show(stdout(), report::table(&defaults, &variable));
    }
    let complaints: Vec<String> =
        defaults.files.iter().flat_map(|file| file.complaints().map(|(text, _)| text)).collect();
    complaints.iter().for_each(log);
    Ok(u8::from(options.check && !complaints.is_empty()))
}
