//! Words of the project's own, which replace the field's.

/// Words that no file has, and the term to use. Each is spelt in two parts, so that this file has none.
const EVERYWHERE: &[(&str, &str)] = &[
    (concat!("put", " off"), "deferred"),
    (concat!("put", "_off"), "deferred"),
    (concat!("catch", "_up"), "flush_deferred"),
    (concat!("must", "er"), "membership, or rendezvous"),
    (concat!("standing", " view"), "site export"),
    (concat!("stood", " before"), "interposed, or preceded"),
    (concat!("stands", " before"), "interposes, or precedes"),
    (concat!("who", "ever"), ACTOR),
    (concat!("some", "body"), ACTOR),
    (concat!("who", "m "), ACTOR),
    (concat!("pati", "ence"), "timeout, or deadline"),
    (concat!("lend", "er"), "downstream source"),
    (concat!("ne", "ws"), "completion event"),
    (concat!("last", "ing"), "persistent"),
    (concat!("surround", "ings"), "environment"),
    (concat!("stran", "ger"), "unauthenticated peer, or another user"),
    (concat!("live", " path"), "passthrough path"),
    (concat!("gives", " back"), "releases, or returns"),
    (concat!("give", "_back"), "release"),
    (concat!("gives", " 0"), "returns 0"),
    (concat!("look", " again"), "check again, or revalidate"),
    (concat!("looks", " again"), "checks again, or revalidates"),
    (concat!("looked", " at again"), "checked again, or revalidated"),
    (concat!("is", " told"), "receives, or is notified"),
    (concat!("are", " told"), "receive, or are notified"),
    (concat!("the other", " way round"), "inverse"),
];
/// Words that no document has, and the term to use.
const IN_DOCUMENTS: &[(&str, &str)] = &[(concat!("origin", "als"), "source files")];
const ACTOR: &str = "name the process, the node or the user";

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
        assert_eq!(count("a.rs", &format!("// {} asks\n", concat!("Who", "ever"))), 1);
        assert_eq!(count("a.md", &format!("{} are read\n", concat!("Origin", "als"))), 1);
        assert_eq!(count("a.rs", &format!("// {} are read\n", concat!("Origin", "als"))), 0);
        assert_eq!(count("a.rs", "// an output off the path\n"), 0);
    }
}
