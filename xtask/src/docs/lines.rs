//! The command lines in the documents: which of their arguments are a command of this repository.

use super::markdown::Code;

/// A program of which the documents show command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `headwater`.
    Headwater,
    /// `cargo xtask`.
    Xtask,
}

/// A command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// The program that it runs.
    pub program: Program,
    /// Its arguments, the program's name first.
    pub args: Vec<String>,
    /// Whether it may lack arguments.
    pub is_part: bool,
}

/// Commands before a command that start it.
const STARTERS: [&str; 7] = ["exec", "sudo", "time", "nohup", "then", "do", "else"];
/// Placeholders for omitted arguments.
const LEFT_OUT: [&str; 2] = ["…", "..."];

/// Returns the command lines in a piece of code. In a sentence, only code that begins with a program's name is one.
pub fn find(code: &Code) -> Vec<Line> {
    let text = code.text.strip_prefix("$ ").unwrap_or(&code.text);
    let lines = commands(text).into_iter().filter_map(|args| line(args, code.is_inline));
    let begins = |name: &str| text.starts_with(name);
    lines.filter(|_| !code.is_inline || begins("headwater ") || begins("cargo xtask ")).collect()
}

fn line(args: Vec<String>, is_inline: bool) -> Option<Line> {
    let is_before = |word: &String| STARTERS.contains(&&**word) || is_assignment(word);
    let mut args: Vec<String> = args.into_iter().skip_while(is_before).collect();
    let program = match &args[..] {
        [first, ..] if first == "headwater" || first.ends_with("/bin/headwater") => Program::Headwater,
        [first, second, ..] if first == "cargo" && second == "xtask" => {
            args.remove(0);
            Program::Xtask
        }
        _ => return None,
    };
    args[0] = if program == Program::Xtask { "cargo xtask".into() } else { "headwater".into() };
    let before = args.len();
    args.retain(|word| !LEFT_OUT.contains(&&**word));
    let is_part = is_inline || args.len() < before;
    Some(Line { program, args, is_part })
}

fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// The simple commands of a line of shell, without redirections and comments.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(mark)) if c == mark => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            ('$', None) if chars.peek() == Some(&'(') => word = None,
            (c, None) if c.is_whitespace() || "|;&()".contains(c) => {
                commands.last_mut().expect("there is one").extend(word.take());
                if !c.is_whitespace() {
                    commands.push(Vec::new());
                }
            }
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    commands.last_mut().expect("there is one").extend(word);
    commands.into_iter().map(without_redirections).filter(|args| !args.is_empty()).collect()
}

fn without_redirections(args: Vec<String>) -> Vec<String> {
    let mut rest = Vec::new();
    let mut args = args.into_iter();
    while let Some(word) = args.next() {
        let bare = word.trim_start_matches(|c: char| c.is_ascii_digit());
        match bare.strip_prefix(['<', '>']) {
            // `<NAME>` is a placeholder for a value.
            Some(_) if word.starts_with('<') && word.ends_with('>') => rest.push(word),
            Some("" | ">") => drop(args.next()),
            Some(_) => {}
            None => rest.push(word),
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, is_inline: bool) -> Vec<String> {
        let code = Code { line: 1, text: text.into(), is_inline };
        find(&code).iter().map(|line| line.args.join("|")).collect()
    }

    #[test]
    fn command_lines_are_found_in_shell() {
        for (text, expected) in [
            ("headwater run -- python3 -c 'import a; b'  # c", vec!["headwater|run|--|python3|-c|import a; b"]),
            ("$ HEADWATER_SUMMARY=1 target/dist/bin/headwater run ./app >out 2> err", vec!["headwater|run|./app"]),
            ("session=$(headwater start -- ./app)", vec!["headwater|start|--|./app"]),
            ("cargo xtask dist && headwater stats | head", vec!["cargo xtask|dist", "headwater|stats"]),
            ("headwater stop $session", vec!["headwater|stop|$session"]),
            ("srun headwater run", vec![]),
            ("echo headwater run # headwater stop", vec![]),
        ] {
            assert_eq!(found(text, false), expected, "{text}");
        }
    }

    #[test]
    fn code_in_sentences_may_omit_arguments() {
        assert_eq!(found("headwater run -- srun …", true), ["headwater|run|--|srun"]);
        assert!(found("a; headwater run", true).is_empty());
        assert!(found("headwater-run(1)", true).is_empty());
        let code = |text: &str| Code { line: 1, text: text.into(), is_inline: false };
        assert!(find(&code("headwater run …"))[0].is_part && !find(&code("headwater run"))[0].is_part);
    }
}
