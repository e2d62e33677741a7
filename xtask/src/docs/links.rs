//! Whether links lead anywhere.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::markdown::Page;

/// Complaints about the links of these pages, by their paths; `exists` reports whether a file or directory of the
/// repository has a path.
pub fn check(pages: &BTreeMap<String, Page>, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, page) in pages {
        for (line, target) in &page.links {
            if let Some(what) = complaint(path, target, pages, &exists) {
                complaints.push(format!("{path}:{line}: {what}"));
            }
        }
    }
    complaints
}

fn complaint(
    path: &str,
    target: &str,
    pages: &BTreeMap<String, Page>,
    exists: &impl Fn(&str) -> bool,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let file = if file.is_empty() { path.to_owned() } else { resolved(path, file)? };
    if !exists(&file) {
        return Some(format!("the link to {target} leads nowhere"));
    }
    if path.starts_with("docs/") && file.contains('/') && !file.starts_with("docs/") {
        return Some(format!("{target} is not installed with this page: name it without a link"));
    }
    let anchor = anchor.filter(|anchor| pages.get(&file).is_some_and(|page| !page.anchors.contains(*anchor)))?;
    Some(format!("{file} has no heading with the anchor #{anchor}"))
}

/// A target's path from the root of the repository.
fn resolved(page: &str, target: &str) -> Option<String> {
    let mut path = PathBuf::from(page).parent()?.to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    Some(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs::markdown::read;

    #[test]
    fn dead_links_and_anchors_are_found() {
        let texts = [
            ("README.md", "# Top\n[a](docs/a.md#one) [b](docs/b.md) [c](#top) [d](https://x.org/y#z) [e](docs)"),
            ("docs/a.md", "# One\n[a](../README.md#bottom) [b](a.svg) [c](../src/x.rs#L1) [d](../LICENSE)"),
        ];
        let pages = texts.into_iter().map(|(path, text)| (path.to_owned(), read(text))).collect();
        let exists = |path: &str| ["README.md", "docs/a.md", "docs", "src/x.rs", "LICENSE"].contains(&path);
        let expected = [
            "README.md:2: the link to docs/b.md leads nowhere",
            "docs/a.md:2: README.md has no heading with the anchor #bottom",
            "docs/a.md:2: the link to a.svg leads nowhere",
            "docs/a.md:2: ../src/x.rs#L1 is not installed with this page: name it without a link",
        ];
        assert_eq!(check(&pages, exists), expected);
    }
}
