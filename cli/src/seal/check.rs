//! A run that uses what a seal lists, and nothing else.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use headwater_closure::recorded::{Entry, What};
use headwater_closure::sealed::{Seal, Sealed};
use headwater_daemon::{COMPLETE, Preload, PreloadList};
use headwater_figures::text::{grouped, size};

use super::key;
use super::measure::{Measured, Stamp, measure_all};
use super::options::SealedOptions;
use super::text::{list, name_of};
use crate::message::log;
use crate::summary::Summary;

/// The least bytes whose check is announced, since it takes seconds.
const ANNOUNCED_BYTES_MIN: u64 = 256 << 20;

/// A run with the files of a seal, which were checked.
#[derive(Debug)]
pub struct SealedRun {
    /// The seal's name.
    name: String,
    /// What the nodes fetch, as lines of a closure.
    entries: Vec<String>,
    /// The checked files and links.
    stamps: Vec<(PathBuf, Stamp)>,
}

impl SealedRun {
    /// Reads the seal that the user named, and checks its signature and all that it lists. `None` without one.
    ///
    /// # Errors
    /// Something differs; the text names it.
    pub fn check(options: &SealedOptions) -> Result<Option<SealedRun>> {
        let Some(path) = &options.sealed else { return Ok(None) };
        let shown = path.display();
        let text =
            fs::read(path).with_context(|| format!("the seal {shown} can't be read; make it with `headwater seal`"))?;
        let signed = Seal::parse(&text).with_context(|| format!("{shown} is not a seal of `headwater seal`"))?;
        key::verify(&signed, options).with_context(|| format!("the seal {shown} is not valid"))?;
        let name = name_of(signed.text);
        announce(&signed.seal);
        let entries: Vec<Entry> = signed.seal.entries.iter().map(|sealed| sealed.entry.clone()).collect();
        let mut run = SealedRun { name, entries: Vec::new(), stamps: Vec::new() };
        let (mut differences, mut more) = (Vec::new(), Vec::new());
        for (sealed, measured) in signed.seal.entries.iter().zip(measure_all(&entries)) {
            let shown = sealed.entry.path.display();
            let compared = measured.map_err(|error| match error.kind() {
                ErrorKind::NotFound => "is missing".to_owned(),
                _ => format!("can't be checked: {error}"),
            });
            match compared.and_then(|measured| compare(sealed, &measured, &mut more).map(|()| measured)) {
                Ok(measured) => {
                    run.entries.push(measured.sealed.entry.to_string());
                    run.stamps.extend(measured.stamp.map(|stamp| (sealed.entry.path.clone(), stamp)));
                }
                Err(difference) => differences.push(format!("{shown} {difference}")),
            }
        }
        if !differences.is_empty() {
            bail!("not what was sealed (seal {}), so nothing was started:{}", run.name, list(&differences));
        }
        if !more.is_empty() {
            log(format_args!(
                "note: these directories have names that were not there when they were sealed; a file of these that is used \
                 ends in an error:{}",
                list(&more)
            ));
        }
        Ok(Some(run))
    }

    /// Returns what nodes fetch, and all that they may use.
    pub fn preload(&self) -> Preload {
        let name = format!("seal {}", self.name);
        Preload::List(PreloadList { name, entries: self.entries.clone(), is_learnt: true, is_complete: true })
    }

    /// Checks at the end that the sealed files are still those that were checked, and that nothing else was used:
    /// `beyond` has what nodes report of that, as lines of a closure.
    ///
    /// # Errors
    /// Something differs, or is not known; the text names it.
    pub fn settle(&self, summary: &Summary, beyond: &[String]) -> Result<()> {
        let about = format!("the run was not that of seal {}", self.name);
        ensure!(summary.off.is_none(), "{about}: it ran without Headwater");
        ensure!(
            summary.clients.fallbacks == 0,
            "{about}: {} times a source file was used that no node has seen",
            summary.clients.fallbacks
        );
        let complete = beyond.iter().filter(|line| *line == COMPLETE).count();
        let silent = (summary.nodes as usize).saturating_sub(complete) + summary.nodes_missing as usize;
        ensure!(
            silent == 0,
            "{about}: {silent} of {} nodes don't know all that was used: they or their daemons failed, or a program ran that \
             the audit library doesn't see, such as a static one (--via namespace sees all)",
            summary.nodes + summary.nodes_missing
        );
        let told = |path: PathBuf| {
            let is_in_part = self.stamps.iter().any(|(sealed, _)| *sealed == path);
            let how = match is_in_part {
                true => "was used beyond what is sealed of it (seal it with --whole)",
                false => "was used, and is not sealed",
            };
            format!("{} {how}", path.display())
        };
        let entries = beyond.iter().filter_map(|line| Entry::parse(line));
        let mut wrong: Vec<String> = entries.map(|entry| told(entry.path)).collect();
        let has_changed = |(path, stamp): &&(PathBuf, Stamp)| !Stamp::now(path).is_ok_and(|now| now == *stamp);
        let changed = self.stamps.iter().filter(has_changed);
        wrong.extend(changed.map(|(path, _)| format!("{} changed while the program ran", path.display())));
        ensure!(wrong.is_empty(), "{about}:{}", list(&wrong));
        Ok(())
    }
}

/// Reports how much is read, if that takes time.
fn announce(seal: &Seal) {
    let bytes_of = |sealed: &Sealed| match &sealed.entry.what {
        What::Blocks(_, ranges) => ranges.count() * headwater_abi::wire::BLOCK_BYTES,
        _ => sealed.digest.and(sealed.entry.version()).map_or(0, |version| version.size),
    };
    let bytes: u64 = seal.entries.iter().map(bytes_of).sum();
    if bytes >= ANNOUNCED_BYTES_MIN {
        log(format_args!("checking {} sealed entries, {}", grouped(seal.entries.len() as u64), size(bytes)));
    }
}

/// Returns how an entry differs from what was sealed. Names that came into a directory are added to `more`.
fn compare(sealed: &Sealed, now: &Measured, more: &mut Vec<String>) -> Result<(), String> {
    let now = &now.sealed;
    if let What::Attributes(was) = sealed.entry.what {
        let size = now.entry.version().map_or(0, |version| version.size);
        if size != was.size {
            return Err(format!("has {size} bytes, and had {}", was.size));
        }
    }
    if sealed.digest != now.digest {
        let is_link = sealed.entry.what == What::Link;
        return Err(if is_link { "leads elsewhere" } else { "has another content" }.into());
    }
    let shown = |name: &Vec<u8>| std::ffi::OsStr::from_bytes(name).display().to_string();
    let is_in = |names: &[Vec<u8>], name: &Vec<u8>| names.binary_search(name).is_ok();
    if let Some(gone) = sealed.names.iter().find(|name| !is_in(&now.names, name)) {
        return Err(format!("no longer has the name {}", shown(gone)));
    }
    if let Some(new) = now.names.iter().find(|name| !is_in(&sealed.names, name)) {
        let count = now.names.len() - sealed.names.len();
        let others = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        more.push(format!("{}: {}{others}", sealed.entry.path.display(), shown(new)));
    }
    Ok(())
}
