//! Finds the scope of a program.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use headwater_closure::scope::{Named, Scope, World, network_file_system};

use crate::message::log;
use crate::options::run::ServiceOptions;
use crate::session::opened::Opened;

/// Returns the scope of a program.
pub fn discover(options: &ServiceOptions, program: &Path, cwd: &Path, opened: &Opened) -> Scope {
    let variable = |name: &str| -> Option<OsString> { env::var_os(name) };
    let open = |path: &Path| opened.open(path);
    let world = World { cwd, variable: &variable, network: &network_file_system, open: &open };
    let scope = Scope::discover(program, Named { shared: &options.shared, exclude: &options.exclude }, world);
    for missing in scope.refused.iter().filter(|r| r.reason == "--shared") {
        log(format_args!("warning: {}: {}", missing.path.display(), missing.because));
    }
    scope
}
