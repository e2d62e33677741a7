//! Finds the scope of a program.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use headwater_closure::scope::{Cause, Named, Scope, World, network_file_system};

use crate::message::log;
use crate::notes::{self, Naming};
use crate::options::run::ServiceOptions;
use crate::session::opened::Opened;

/// Returns the scope of a program.
pub fn discover(options: &ServiceOptions, program: &Path, cwd: &Path, opened: &Opened) -> Scope {
    let variable = |name: &str| -> Option<OsString> { env::var_os(name) };
    let open = |path: &Path| opened.open(path);
    let world = World { cwd, variable: &variable, network: &network_file_system, open: &open };
    let scope = Scope::discover(program, Named { shared: &options.shared, exclude: &options.exclude }, world);
    // If nothing is served, the reason names the first of them.
    if serves(&scope) {
        for missing in scope.refused.iter().filter(|refused| matches!(refused.cause, Cause::Unusable(_))) {
            log(format_args!("warning: {} {}: {}", missing.reason, missing.path.display(), missing.cause));
        }
    }
    scope
}

/// Returns whether a scope has something to serve.
pub fn serves(scope: &Scope) -> bool {
    scope.entries.iter().any(|entry| entry.included)
}

/// Returns why a program's scope has nothing to serve. `option` names the option for directories.
pub fn why_nothing(scope: &Scope, option: &str) -> String {
    let home = env::var_os("HOME").map(PathBuf::from);
    notes::why_nothing(scope, Naming { option, home: home.as_deref() })
}
