//! Words of the project's own, which replace the field's.

/// Words that no file has, and the term to use. Each is spelt in two parts, so that this file has none.
const EVERYWHERE: &[(&str, &str)] = &[
    (concat!("put", " off"), "deferred"),
    (concat!("put", "_off"), "deferred"),
    (concat!("must", "er"), "membership, or rendezvous"),
    (concat!("standing", " view"), "site export"),
    (concat!("stood", " before it"), "interposed"),
];
/// Words that no document has: the thing that acts is named.
const IN_DOCUMENTS: &[(&str, &str)] = &[
    (concat!("who", "ever"), "name the process, the node or the user"),
    (concat!("some", "body"), "name the process, the node or the user"),
    (concat!("stands", " before"), "interposes, or precedes"),
];

/// Complaints about words of the file `path` with this text.
pub fn check(path: &str, source: &str) -> Vec<String> {
    let documents = if path.ends_with(".md") { IN_DOCUMENTS } else { &[] };
    let mut complaints = Vec::new();
    for (number, line) in source.lines().enumerate() {
        let line = line.to_lowercase();
        for (word, instead) in EVERYWHERE.iter().chain(documents).filter(|(word, _)| has_word(&line, word)) {
            complaints.push(format!("{path}:{}: `{word}`: {instead}", number + 1));
        }
    }
    complaints
}

/// True if the line has the word at the beginning of one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_where_they_begin() {
        let count = |path, text: &str| check(path, text).len();
        assert_eq!(count("a.rs", &format!("// It was {}.\n", concat!("put", " off"))), 1);
        assert_eq!(count("a.md", &format!("{} asks\n", concat!("Who", "ever"))), 1);
        assert_eq!(count("a.rs", &format!("// {} asks\n", concat!("Who", "ever"))), 0);
        assert_eq!(count("a.rs", "// an output off the path\n"), 0);
    }
}
