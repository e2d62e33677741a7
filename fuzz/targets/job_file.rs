//! The file by which a job's nodes find their front end.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

#[path = "../../cli/src/io"]
#[allow(dead_code, reason = "options are not used here")]
mod io {
    pub mod options;
}
#[path = "../../cli/src/options"]
#[allow(dead_code, reason = "options are not used here")]
mod options {
    pub mod headings;
}
#[allow(dead_code, reason = "no files are written here")]
#[path = "../../cli/src/rendezvous"]
mod rendezvous {
    pub mod file;
    pub mod ports;

    pub mod interfaces {
        /// The name of an interface, which serde reads.
        pub type InterfaceName = String;
    }
}
#[allow(dead_code, reason = "no program is checked here")]
#[path = "../../cli/src/via"]
mod via {
    mod program;

    pub use program::Program;

    /// One of several names, which serde reads.
    pub type Via = String;
}
/// Names of sessions are not part of the file.
#[path = "../../cli/src/session"]
#[allow(dead_code, reason = "no files are written here")]
mod session {
    pub mod records;

    pub mod directory {
        use std::ffi::OsStr;

        use headwater_daemon::SessionId;

        pub fn is_session_name(name: &OsStr) -> bool {
            !name.is_empty()
        }

        pub fn name_of(id: SessionId) -> String {
            format!("{:x}", id.0)
        }
    }
}

use rendezvous::file::Job;

fuzz_target!(|bytes: &[u8]| {
    let Ok(job) = Job::parse(bytes, Path::new("job")) else { return };
    let written = serde_json::to_string(&job).expect("what was read can be written");
    let again = Job::parse(written.as_bytes(), Path::new("job")).expect("what was written can be read");
    assert_eq!(serde_json::to_string(&again).expect("as before"), written);
});
