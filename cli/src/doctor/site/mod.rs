//! What this node's part of a site export lacks: its configuration, its service, its mount, and its readers.

mod file;
mod readers;
mod service;

use std::path::Path;

use crate::doctor::check::Check;
use crate::site_export::export::check_export;
use crate::site_export::site::Site;

/// Examines the site export of this file on this node.
pub fn examine(file: &Path) -> Vec<Check> {
    const NAME: &str = "site";
    let next = format!("correct {}, the same on all nodes", file.display());
    let (options, site) = match file::read(file).and_then(|options| {
        let site = Site::new(&options.site, &options.local)?;
        Ok((options, site))
    }) {
        Ok(read) => read,
        Err(error) => return vec![Check::missing(NAME, format!("{error:#}"), next)],
    };
    let (readers, nodes) = site.counts();
    let is = if site.is_reader() { "reader" } else { "node" };
    let found = format!("{readers} readers serve {} to {nodes} nodes; {} is a {is}", site.export, site.name());
    let mut checks = vec![Check::ok(NAME, found)];
    let stats = service::find(&site, options.local.storage.store.as_deref());
    checks.push(service::daemon(&site, stats.as_ref()));
    if site.is_reader() {
        checks.push(export(&site));
    } else {
        let at = options.at.as_deref().unwrap_or(Path::new(&site.export));
        checks.push(service::mount(at, stats.as_ref().is_some_and(service::has_parent)));
    }
    checks.extend(stats.as_ref().map(|stats| service::links(&site, stats)));
    checks.extend(readers::check(&site));
    checks
}

/// Checks the directory on a reader.
fn export(site: &Site) -> Check {
    const NAME: &str = "directory";
    match check_export(Path::new(&site.export)) {
        Ok(()) => Check::ok(NAME, format!("all users may enter {}", site.export)),
        Err(error) => {
            let next = format!("check its mount and modes: ls -ld {}", site.export);
            Check::missing(NAME, format!("{error:#}"), next)
        }
    }
}
