//! A page: one HTML file with its style, its script and its data, that works from a disk.
//!
//! ```
//! use headwater_report::page::{Cell, Column, Page, Section, Table, Timeline};
//!
//! let mut table = Table::new([Column::text("file"), Column::bytes("size"), Column::nanoseconds("time")]);
//! table.row([Cell::text("/sw/lib/libx.so"), Cell::number(48_213), Cell::number(120_000)]);
//! let mut timeline = Timeline::new("time since the start");
//! let read = timeline.category("read from the shared file system");
//! timeline.row("/sw/lib/libx.so").bar(1_000, 121_000, read, "by node 0");
//! let page = Page::new("A start").lead("python3 train.py, 16 nodes").section(
//!     Section::new("Files").fact("Files", "1", "").text("What was read.").table(table).timeline(timeline),
//! );
//! assert!(page.html().starts_with("<!DOCTYPE html>"));
//! ```
//!
//! Every string is taken as text: none becomes markup, ends a script or changes the direction of other text. Rows of
//! tables and time-lines are data, of which the script shows what is in view, so there may be tens of thousands.

mod content;
mod escape;
mod table;
mod timeline;

use std::fmt::Write;

use self::content::Content;
pub use self::escape::{html, printable};
pub use self::table::{Cell, Column, Table, Unit};
pub use self::timeline::{CATEGORIES_MAX, Category, Row, Timeline};

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");
/// The SHA-256 digest of the script, in Base64: browsers run this script and no other.
const SCRIPT_DIGEST: &str = "sha256-GMohIj3bAlBgs044lTU7mhOyW72Hv3sjdiSpMR49+Ew=";

/// A page under construction.
pub struct Page {
    title: String,
    lead: Vec<String>,
    sections: Vec<Section>,
}

/// A section under construction: a heading, and parts in their order.
pub struct Section {
    title: String,
    parts: Vec<Part>,
}

enum Part {
    Text(String),
    Code(String),
    Facts(Vec<Fact>),
    Shares(Vec<Share>),
    Table(Table),
    Timeline(Timeline),
}

struct Fact {
    name: String,
    value: String,
    note: String,
}

struct Share {
    name: String,
    value: f64,
    shown: String,
}

impl Page {
    /// Returns a page with this title and no sections.
    pub fn new(title: impl Into<String>) -> Page {
        Page { title: title.into(), lead: Vec::new(), sections: Vec::new() }
    }

    /// Adds a paragraph below the title.
    #[must_use]
    pub fn lead(mut self, text: impl Into<String>) -> Page {
        self.lead.push(text.into());
        self
    }

    /// Adds a section at the end.
    #[must_use]
    pub fn section(mut self, section: Section) -> Page {
        self.sections.push(section);
        self
    }

    /// Returns the file's content.
    pub fn html(&self) -> String {
        let mut content = Content::default();
        let mut body = String::new();
        for section in &self.sections {
            let _ = write!(body, "<section>\n<h2>{}</h2>\n", html(&section.title));
            for part in &section.parts {
                part.write(&mut body, &mut content);
            }
            body += "</section>\n";
        }
        let lead: String = self.lead.iter().map(|text| format!("<p class=\"lead\">{}</p>\n", html(text))).collect();
        let title = html(&self.title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; script-src '{SCRIPT_DIGEST}'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{lead}{body}</main>\n\
             <script type=\"application/json\" id=\"data\">{}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
            content.json()
        )
    }
}

impl Section {
    /// Returns a section with this heading and no parts.
    pub fn new(title: impl Into<String>) -> Section {
        Section { title: title.into(), parts: Vec::new() }
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Section {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// Adds lines of commands or output, in a font of fixed width.
    #[must_use]
    pub fn code(mut self, text: impl Into<String>) -> Section {
        self.parts.push(Part::Code(text.into()));
        self
    }

    /// Adds a number that matters, with its name and a short note. Facts that follow each other share lines.
    #[must_use]
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<String>, note: impl Into<String>) -> Section {
        let fact = Fact { name: name.into(), value: value.into(), note: note.into() };
        match self.parts.last_mut() {
            Some(Part::Facts(facts)) => facts.push(fact),
            _ => self.parts.push(Part::Facts(vec![fact])),
        }
        self
    }

    /// Adds a part of a whole, which is drawn with the others that follow as one bar; `shown` is the value as text.
    #[must_use]
    pub fn share(mut self, name: impl Into<String>, value: f64, shown: impl Into<String>) -> Section {
        let share = Share { name: name.into(), value: value.max(0.0), shown: shown.into() };
        match self.parts.last_mut() {
            Some(Part::Shares(shares)) => shares.push(share),
            _ => self.parts.push(Part::Shares(vec![share])),
        }
        self
    }

    /// Adds a table.
    #[must_use]
    pub fn table(mut self, table: Table) -> Section {
        self.parts.push(Part::Table(table));
        self
    }

    /// Adds a time-line.
    #[must_use]
    pub fn timeline(mut self, timeline: Timeline) -> Section {
        self.parts.push(Part::Timeline(timeline));
        self
    }
}

impl Part {
    fn write(&self, body: &mut String, content: &mut Content) {
        let _ = match self {
            Part::Text(text) => writeln!(body, "<p>{}</p>", html(text)),
            Part::Code(text) => writeln!(body, "<pre>{}</pre>", html(text)),
            Part::Facts(facts) => {
                *body += "<div class=\"facts\">\n";
                for Fact { name, value, note } in facts {
                    let (name, value, note) = (html(name), html(value), html(note));
                    let _ = writeln!(body, "<div><b>{value}</b><span>{name}</span><small>{note}</small></div>");
                }
                writeln!(body, "</div>")
            }
            Part::Shares(shares) => {
                write_shares(body, shares);
                Ok(())
            }
            Part::Table(table) => {
                let number = content.table(table);
                writeln!(body, "<div class=\"table\" data-table=\"{number}\">\n{}</div>", table.html())
            }
            Part::Timeline(timeline) => {
                let number = content.timeline(timeline);
                let shown = "<noscript>The time-line needs scripts.</noscript>";
                writeln!(body, "<div class=\"timeline\" data-timeline=\"{number}\">{shown}</div>")
            }
        };
    }
}

/// Draws the parts of a whole as one bar of SVG, with a legend.
fn write_shares(body: &mut String, shares: &[Share]) {
    const WIDTH: f64 = 1000.0;
    let whole: f64 = shares.iter().map(|share| share.value).sum();
    *body += "<svg class=\"shares\" viewBox=\"0 0 1000 24\" preserveAspectRatio=\"none\" role=\"img\">\n";
    let mut from = 0.0;
    for (number, Share { name, value, shown }) in shares.iter().enumerate().filter(|_| whole > 0.0) {
        let width = value / whole * WIDTH;
        let colour = timeline::colour(number);
        let (name, shown) = (html(name), html(shown));
        let _ = writeln!(
            body,
            "<rect class=\"c{colour}\" x=\"{from:.2}\" y=\"0\" width=\"{width:.2}\" height=\"24\"><title>{name}: \
             {shown}</title></rect>"
        );
        from += width;
    }
    *body += "</svg>\n<ul class=\"legend\">\n";
    for (number, Share { name, value, shown }) in shares.iter().enumerate() {
        let colour = timeline::colour(number);
        let percent = if whole > 0.0 { value / whole * 100.0 } else { 0.0 };
        let (name, shown) = (html(name), html(shown));
        let _ = writeln!(body, "<li><i class=\"c{colour}\"></i>{name} <b>{shown}</b> ({percent:.0} %)</li>");
    }
    *body += "</ul>\n";
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    const HOSTILE: &str = "</script><img src=x onerror=alert(1)>'\"&<!--\u{202e}\u{2028}\n";

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let group = |group: &[u8]| {
            let all = group.iter().fold(0u32, |all, &byte| all << 8 | u32::from(byte)) << (8 * (3 - group.len()));
            let digit = |at: usize| char::from(DIGITS[(all >> (18 - 6 * at)) as usize & 63]);
            (0..4).map(|at| if at <= group.len() { digit(at) } else { '=' }).collect::<String>()
        };
        bytes.chunks(3).map(group).collect()
    }

    #[test]
    fn the_policy_admits_the_script() {
        assert_eq!(SCRIPT_DIGEST, format!("sha256-{}", base64(&Sha256::digest(SCRIPT))));
    }

    #[test]
    fn hostile_text_stays_text() {
        let mut table = Table::new([Column::text(HOSTILE), Column::count("n")]);
        table.row([Cell::text(HOSTILE), Cell::Empty]);
        let mut timeline = Timeline::new(HOSTILE);
        let category = timeline.category(HOSTILE);
        timeline.row(HOSTILE).bar(0, 1, category, HOSTILE);
        let section = Section::new(HOSTILE).text(HOSTILE).code(HOSTILE).fact(HOSTILE, HOSTILE, HOSTILE);
        let section = section.share(HOSTILE, 1.0, HOSTILE).table(table).timeline(timeline);
        let page = Page::new(HOSTILE).lead(HOSTILE).section(section).html();
        assert!(!page.contains("<img") && !page.contains("<!--") && !page.contains('\u{202e}'));
        assert_eq!(page.matches("</script>").count(), 2);
        assert_eq!(page.matches("<script").count(), 2);
    }

    #[test]
    fn a_page_asks_nothing_of_other_places() {
        let page = Page::new("x").html();
        for part in ["http:", "https:", "url(", "src=", "href=", "import "] {
            assert!(!page.contains(part), "{part}");
        }
    }
}
