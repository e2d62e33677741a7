//! What this machine supports and lacks, with the next step for each problem.

mod cache;
pub mod check;
mod kernel;
pub mod leftovers;
mod loader;
mod network;
mod overlay;
pub mod render;
mod resources;
pub mod site;

use self::check::{Check, CheckResult, Findings, Mechanisms};
use crate::namespace::{self, Found};
use crate::options::DoctorOptions;
use crate::via::{Choice, Mechanism, Program, Via};

/// Examines this machine; `removed` names the leftovers that were removed before.
pub fn examine(options: &DoctorOptions, removed: Vec<String>) -> Findings {
    let found = namespace::probe();
    let store = resources::store(options.store.as_deref());
    let audit = loader::audit();
    let device = kernel::device();
    let helper = kernel::helper();
    let works = |check: &Check| check.verdict != CheckResult::Missing;
    let has_store = works(&store);
    let mechanisms = Mechanisms {
        namespace: has_store && matches!(found, Found::Usable { .. }),
        audit: has_store && works(&audit),
        mount: has_store && works(&helper) && (works(&device) || kernel::has_device()),
    };
    let choice = choice(&found, mechanisms);
    let checks = [
        kernel::version(),
        device,
        kernel::features(&found),
        kernel::namespaces(&found),
        kernel::user_namespaces(&found),
        helper,
        audit,
        loader::mpi_io(),
        store,
        cache::cache(options.cache.as_deref(), options.cache_max),
        resources::shared_memory(),
        resources::descriptors(),
        resources::processes(),
        network::file_systems(),
        network::ssh(&found),
        overlay::encryption(),
        overlay::socket_buffers(),
        overlay::links(),
        overlay::libfabric(),
        leftovers::sessions(options.store.as_deref()),
        leftovers::mounts(),
    ];
    Findings { checks: checks.into(), mechanisms, via: choice.mechanism.name(), via_reason: choice.reason, removed }
}

/// Returns the mechanism of an ordinary program.
fn choice(found: &Found, mechanisms: Mechanisms) -> Choice {
    let is_root = rustix::process::geteuid().is_root();
    let choice = Choice::make(Via::Auto, &Program::default(), is_root, || found.clone());
    match choice.mechanism {
        Mechanism::Namespace { .. } if !mechanisms.namespace => Choice::off("there is no directory for a store".into()),
        Mechanism::Audit { .. } if !mechanisms.audit => {
            Choice::off(format!("programs can't be audited here, and {}", choice.reason))
        }
        _ => choice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_works() {
        let unusable = Found::Unusable("no /dev/fuse".into());
        let check = |audit, expected| {
            let choice = choice(&unusable, Mechanisms { namespace: false, audit, mount: false });
            assert_eq!(choice.mechanism, expected);
            assert!(choice.reason.contains("no /dev/fuse"), "{}", choice.reason);
        };
        check(true, Mechanism::Audit { has_mount: false });
        check(false, Mechanism::Off);
    }
}
