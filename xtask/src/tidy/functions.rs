//! Finding functions and their lengths by matching braces.

use super::text::{Language, blank};

/// A function's name and the lines on which it begins and ends, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its name.
    pub first: usize,
    /// The line of its closing brace.
    pub last: usize,
}

impl Function {
    /// How many lines it takes.
    pub fn lines(&self) -> usize {
        self.last + 1 - self.first
    }
}

/// The functions with bodies in `source`, in order; in Rust nested ones too.
pub fn find(source: &str, language: Language) -> Vec<Function> {
    let code = blank(source, language);
    match language {
        Language::Rust => rust(&code),
        Language::C => c(&without_directives(&code)),
    }
}

fn rust(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].ends_with(is_word) {
            continue;
        }
        let name: String = code[at + 3..].trim_start().chars().take_while(|&c| is_word(c)).collect();
        let Some(body) = body_start(&code[at..]).map(|offset| at + offset) else { continue };
        if name.is_empty() {
            continue;
        }
        found.push(Function { name, first: line_of(code, at), last: line_of(code, closing(code, body)) });
    }
    found
}

/// The position of the brace after a signature; `None` if it ends in a semicolon or is a type.
fn body_start(signature: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in signature.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' if depth == 0 => return None,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(at),
            ';' | '=' | '}' if depth == 0 && !signature[at..].starts_with("=>") => return None,
            _ => {}
        }
    }
    None
}

fn c(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    let (mut at, mut declaration) = (0, 0);
    while let Some(offset) = code[at..].find(['{', ';']) {
        let here = at + offset;
        if code.as_bytes()[here] == b';' {
            at = here + 1;
            declaration = at;
            continue;
        }
        let end = closing(code, here);
        let head = code[declaration..here].trim_end();
        if head.ends_with(')') {
            let name_end = declaration + parameters_start(head);
            let name = code[declaration..name_end].trim_end().rsplit(|c| !is_word(c)).next().unwrap_or("").to_owned();
            let first = line_of(code, code[..name_end].trim_end().len() - name.len());
            found.push(Function { name, first, last: line_of(code, end) });
            declaration = end + 1;
        } else if !head.ends_with('=') {
            declaration = end + 1;
        }
        at = end + 1;
    }
    found
}

/// The position where the last parenthesis group of `head` opens: before it are perhaps macros, then the name.
fn parameters_start(head: &str) -> usize {
    let mut depth = 0;
    for (at, byte) in head.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' if depth == 1 => return at,
            b'(' => depth -= 1,
            _ => {}
        }
    }
    0
}

/// Preprocessor lines, continued ones included, contain unbalanced text.
fn without_directives(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut inside = false;
    for line in code.split_inclusive('\n') {
        inside = inside || line.trim_start().starts_with('#');
        out.push_str(if inside { "\n" } else { line });
        inside = inside && line.trim_end().ends_with('\\');
    }
    out
}

/// The position where the brace that opens at `open` closes.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (offset, byte) in code.as_bytes()[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return open + offset,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len() - 1
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(language: Language, source: &str, expected: &[(&str, usize, usize)]) {
        let found: Vec<_> = find(source, language).into_iter().map(|f| (f.name, f.first, f.last)).collect();
        let expected: Vec<_> = expected.iter().map(|&(n, f, l)| (n.to_owned(), f, l)).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn rust() {
        check(
            Language::Rust,
            "fn a() {\n}\nimpl X {\n    pub fn b(x: [u8; 3]) -> u8 {\n        '{'\n    }\n}\n",
            &[("a", 1, 2), ("b", 4, 6)],
        );
        check(Language::Rust, "trait T {\n fn a(&self);\n fn b(&self) {}\n}", &[("b", 3, 3)]);
        check(Language::Rust, "type F = fn (u8) -> u8;\nstruct S { f: fn (u8), }\nfn g() {}", &[("g", 3, 3)]);
    }

    #[test]
    fn c() {
        let source = "#define X(a) do { \\\n a; \\\n} while (0)\nstatic int\nf(int a)\n{\n\tif (a) {\n\t}\n}\n\
                      struct s { int x; };\nint t[] = { 1, 2 };\nint g(void) { return 0; }\n";
        check(Language::C, source, &[("f", 5, 9), ("g", 12, 12)]);
        check(Language::C, "WRAP(a, int)\nWRAP(b, (int))\nint f(int (*g)(void))\n{\n}\n", &[("f", 3, 5)]);
    }
}
