//! The namespace mechanism: a node's processes share a mount namespace in which the view covers the directories of the
//! scope.
//!
//! `headwater namespace` makes it for the node's supervisor, which holds the descriptors. It mounts the view, sends the
//! device, waits until requests are answered, binds the view over the scope, reads ahead, and ends. `headwater exec
//! --enter` enters it.

mod cover;
pub mod disk;
mod enter;
pub mod keeper;
mod make;
mod obstacles;
mod probe;
mod read_ahead;

use std::io::stdout;
use std::os::fd::AsFd;

use anyhow::{Context, Result, ensure};
pub use enter::enter;
use headwater_supervisor::namespace::{Channel, Progress, Serving, Task};
pub use make::{SUBTYPE, may_mount};
pub use obstacles::{device_step, setting, user_namespaces as explain_user_namespaces, user_namespaces_forbidden};
pub use probe::{Features, Found, presumed, probe};

use crate::message::show;
use crate::options::inner::NamespaceOptions;

/// `headwater namespace`: makes the namespaces that are requested over standard input, a [`Channel`], or probes the
/// kernel. Returns the exit status.
pub fn run(options: &NamespaceOptions) -> u8 {
    if options.probe {
        let found = serde_json::to_string(&probe::answer()).unwrap_or_default();
        show(stdout(), format_args!("{found}\n"));
        return 0;
    }
    if let Some(bytes) = options.disk {
        return disk::answer(bytes).map_or(crate::status::FAILURE, |()| 0);
    }
    // The working directory may be covered later, and must not be held.
    let _ = std::env::set_current_dir("/");
    let Ok(supervisor) = Channel::of_stdin() else { return crate::status::FAILURE };
    let Err(error) = serve_on(&supervisor) else { return 0 };
    // The send fails if the supervisor is gone.
    let _ = supervisor.send(&Progress::Failed(format!("{error:#}")), &[]);
    crate::status::FAILURE
}

fn serve_on(supervisor: &Channel) -> Result<()> {
    let gone = "the supervisor is gone";
    let (task, _) = supervisor.receive::<Task>().context(gone)?;
    let made = make::make(&task)?;
    let descriptors = [Some(made.device.as_fd()), Some(made.mount.as_fd()), made.user.as_ref().map(AsFd::as_fd)];
    let descriptors: Vec<_> = descriptors.into_iter().flatten().collect();
    supervisor.send(&Progress::Mounted, &descriptors).context(gone)?;
    // From here on only the supervisor holds the device.
    drop(made);
    let (Serving { is_served, blocks }, _) = supervisor.receive().context(gone)?;
    ensure!(is_served, "the view is not served");
    cover::cover(&task.view, &task.scope)?;
    supervisor.send(&Progress::Bound, &[]).context(gone)?;
    read_ahead::read_ahead(&blocks);
    Ok(())
}
