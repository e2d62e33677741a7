//! `headwater clear`: discards copies of files.

use std::collections::BTreeMap;
use std::io::stdout;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use headwater_daemon::protocol::{Answer, Cleared, Command, PathText, Target};
use headwater_figures::text::bytes;

use crate::control::client;
use crate::control::find::{Node, find};
use crate::control::options::ClearOptions;
use crate::control::stats::of_node;
use crate::message::{log, show};

/// Discards the named copies; returns the exit status.
pub fn clear(options: &ClearOptions) -> Result<u8> {
    let session = find(&options.nodes)?;
    let mut done = BTreeMap::new();
    let mut failures = 0;
    for node in &session.nodes {
        match clear_node(node, options) {
            Ok(cleared) => drop(done.insert(node.number, cleared)),
            Err(error) => {
                failures += 1;
                log(format_args!("node {}: {error:#}", node.number));
            }
        }
    }
    if done.is_empty() {
        bail!("nothing was cleared: no daemon of session {} answers", session.name);
    }
    if options.json {
        show(stdout(), serde_json::to_string(&done)? + "\n");
    } else {
        done.iter().for_each(|(node, cleared)| show(stdout(), describe(*node, cleared)));
    }
    Ok(u8::from(failures > 0))
}

fn clear_node(node: &Node, options: &ClearOptions) -> Result<Cleared> {
    let files = options.paths.iter().map(|path| (path.as_path(), false));
    let trees = options.subtree.iter().map(|path| (path.as_path(), true));
    let all = options.all.then_some((Path::new("/"), true));
    let mut targets = Vec::new();
    for (path, subtree) in files.chain(trees).chain(all) {
        targets.push(Target { path: PathText::from(&*original(node, path)?), subtree });
    }
    match client::ask(&node.socket, Command::Clear(targets))? {
        Answer::Cleared(cleared) => Ok(cleared),
        _ => bail!("the daemon's answer is of another version; use the session's own headwater"),
    }
}

/// Returns the source file's absolute path, of that path or of one in the node's mount.
pub fn original(node: &Node, path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).with_context(|| format!("{} is not a path", path.display()))?;
    let mount = of_node(node).ok().and_then(|stats| stats.mount);
    let inside = mount.as_ref().and_then(|mount| {
        let below = absolute.strip_prefix(mount.mount_point.to_path()).ok()?;
        Some(mount.root.to_path().join(below))
    });
    Ok(inside.unwrap_or(absolute))
}

fn describe(node: u32, cleared: &Cleared) -> String {
    let Cleared { files, bytes: freed, kept_in_use, kept_in_transit } = *cleared;
    let mut text = format!("node {node}: {files} files discarded, {}", bytes(freed));
    for (count, why) in [(kept_in_use, "a process has them open or mapped"), (kept_in_transit, "they are being sent")] {
        if count > 0 {
            text += &format!("; {count} retained, since {why}");
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retained_files_are_reported() {
        let cleared = Cleared { files: 3, bytes: 4096, kept_in_use: 2, kept_in_transit: 0 };
        let text = describe(1, &cleared);
        assert_eq!(text, "node 1: 3 files discarded, 4.0K; 2 retained, since a process has them open or mapped\n");
    }
}
