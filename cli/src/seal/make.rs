//! `headwater seal`.

use std::fs;
use std::io::stdout;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use headwater_closure::recorded::{self, Entry, What};
use headwater_closure::sealed::{NAMES_MAX, Seal, Sealed, hexadecimal};
use headwater_figures::text::grouped;

use super::key;
use super::measure::{Measured, measure_all};
use super::options::SealOptions;
use super::text::{list, name_of};
use crate::closures;
use crate::message::show;

/// Writes a seal of a closure's files as they are now.
///
/// # Errors
/// A file is not what the closure describes, or can't be read.
pub fn make(options: &SealOptions) -> Result<u8> {
    let path = find(options)?;
    let shown = path.display();
    let text = fs::read(&path).with_context(|| format!("{shown} can't be read"))?;
    let mut entries =
        recorded::parse(&text).with_context(|| format!("{shown} is not a closure of `headwater record`"))?;
    let title = closures::title_of(&text).unwrap_or_else(|| path.display().to_string());
    if options.whole {
        entries.iter_mut().for_each(|entry| entry.what = whole(&entry.what));
    }
    let entries = seal(&entries)?;
    let names: usize = entries.iter().map(|entry| entry.names.len()).sum();
    ensure!(names <= NAMES_MAX, "its directories have {names} names, and a seal at most {NAMES_MAX}");
    let files = entries.iter().filter(|entry| entry.digest.is_some()).count() as u64;
    let text = Seal { title, entries }.text();
    let key = key::own(options.key.as_deref())?;
    let name = name_of(text.as_bytes());
    let output = options.output.clone().unwrap_or_else(|| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        PathBuf::from(format!("{stem}-{name}.seal"))
    });
    fs::write(&output, text.clone() + &key::sign(&key, &text).line())
        .with_context(|| format!("{} can't be written: name another file with -o", output.display()))?;
    show(
        stdout(),
        format_args!(
            "{}: seal {name} of {} files, signed by {}\n",
            output.display(),
            grouped(files),
            hexadecimal(&key.verifying_key().to_bytes())
        ),
    );
    Ok(0)
}

/// Returns the closure's file: the named one, or one that a run has left.
fn find(options: &SealOptions) -> Result<PathBuf> {
    if options.closure.exists() {
        return Ok(options.closure.clone());
    }
    let shown = options.closure.display();
    let directory = options.closures.clone().or_else(closures::default_directory);
    let found = directory.and_then(|directory| {
        let name = options.closure.to_str()?;
        [name.to_owned(), format!("{name}.closure")]
            .map(|name| directory.join(name))
            .into_iter()
            .find(|path| path.is_file())
    });
    found.with_context(|| format!("{shown} is neither a file nor a closure of `headwater closures`"))
}

/// Returns all of a file in place of its parts.
fn whole(what: &What) -> What {
    match what {
        What::Blocks(version, _) => What::Whole(*version),
        other => other.clone(),
    }
}

/// Returns the entries with their digests.
fn seal(entries: &[Entry]) -> Result<Vec<Sealed>> {
    let mut sealed = Vec::with_capacity(entries.len());
    let mut wrong = Vec::new();
    for (entry, measured) in entries.iter().zip(measure_all(entries)) {
        let shown = entry.path.display();
        match measured {
            Ok(Measured { sealed, .. }) if entry.version().is_some_and(|was| sealed.entry.version() != Some(was)) => {
                wrong.push(format!("{shown} has changed since"));
            }
            Ok(measured) => sealed.push(measured.sealed),
            Err(error) => wrong.push(format!("{shown}: {error}")),
        }
    }
    ensure!(wrong.is_empty(), "the files are not those of the closure: record it again.{}", list(&wrong));
    Ok(sealed)
}
