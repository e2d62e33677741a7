//! Whether the store has room for what is known to be needed.

use std::path::{Path, PathBuf};

use headwater_figures::text::size;

/// Returns a note if a file that a node fetches as a whole has no room in its store. `needed` has the files that are known,
/// with their bytes.
pub fn too_small(store_bytes_max: u64, whole_file_bytes_max: u64, needed: &[(PathBuf, u64)]) -> Option<String> {
    let whole = needed.iter().filter(|(_, bytes)| *bytes <= whole_file_bytes_max);
    let (file, bytes): &(PathBuf, u64) = whole.max_by_key(|(_, bytes)| *bytes)?;
    (*bytes > store_bytes_max).then(|| text(store_bytes_max, file, *bytes))
}

fn text(store_bytes_max: u64, file: &Path, bytes: u64) -> String {
    format!(
        "warning: the store of a node holds {}, and {} has {}: what has no room is read from its file system. Use a larger \
         --store-max, or ask for more memory",
        size(store_bytes_max),
        file.display(),
        size(bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_file_that_is_fetched_as_a_whole_decides() {
        let needed = [("/sw/a", 2_000_000), ("/sw/b", 5_000_000), ("/sw/large", 900_000_000)];
        let needed = needed.map(|(path, bytes)| (PathBuf::from(path), bytes));
        assert_eq!(too_small(5_000_000, 16 << 20, &needed), None);
        let note = too_small(4_000_000, 16 << 20, &needed).unwrap();
        assert!(note.starts_with("warning: the store of a node holds 4.0 MB, and /sw/b has 5.0 MB: "), "{note}");
        assert_eq!(too_small(1, 1 << 20, &needed), None, "blocks of these are fetched");
        assert_eq!(too_small(1, 1 << 20, &[]), None);
    }
}
