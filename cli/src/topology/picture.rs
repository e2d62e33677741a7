//! Draws one tree, folded: as lines of text, and as SVG.

use std::fmt::{self, Write};

use headwater_figures::plot::escaped;
use headwater_figures::text::{columns, grouped};
use headwater_topology::hosts::{Hostlist, Switches};
use headwater_topology::{Rank, TreeId};

use super::fold::{Group, fold};
use super::overview::Plan;

/// The columns of a terminal.
const WIDTH: usize = 80;
/// The fewest characters of nodes' names in a line.
const NAMES_MIN: usize = 12;
/// The most characters of a switch's name.
const SWITCH_MAX: usize = 14;
/// The most characters in a box.
const BOX_NAMES_MAX: usize = 25;
const BOX_WIDTH: f64 = 190.0;
const BOX_HEIGHT: f64 = 38.0;
/// From box to box.
const ACROSS: f64 = 240.0;
const DOWN: f64 = 54.0;
const MARGIN: f64 = 20.0;
const TOP: f64 = 84.0;
/// How far the boxes behind one of several nodes stand out.
const BEHIND: f64 = 4.0;
const STYLE: &str = ".ground{fill:#ffffff}text{fill:#1a1a1a}.note{fill:#555555}.link{stroke:#8a94a0;fill:none}\
                     .leaf{fill:#f1f3f5;stroke:#8a94a0}.sends{fill:#dcebfa;stroke:#2f6db2}.reads{fill:#fbe3dc;stroke:#b2432f}\
                     @media(prefers-color-scheme:dark){.ground{fill:#14181d}text{fill:#e8e8e8}.note{fill:#a8a8a8}\
                     .leaf{fill:#20262d;stroke:#8a94a0}.sends{fill:#1c3146;stroke:#74b0f2}.reads{fill:#46231b;stroke:#f0806a}}";

/// One tree, folded.
pub struct Picture {
    tree: u32,
    trees: u32,
    rows: Vec<Row>,
    /// How many links join nodes of one switch, and how many there are, if switches are known.
    near: Option<(u32, u32)>,
}

struct Row {
    group: Group,
    names: String,
    /// The switches of its nodes, if switches are known.
    switches: Option<SwitchSet>,
}

/// The switches of several nodes.
enum SwitchSet {
    One(String),
    Several(usize),
    /// The topology file has none of the nodes.
    Unknown,
}

impl Picture {
    /// Folds a tree. `switches` is the topology file.
    pub fn new(plan: &Plan<'_>, tree: TreeId, switches: Option<&Switches>) -> Picture {
        let parents: Vec<Option<u32>> =
            (0..plan.forest.ranks()).map(|rank| plan.forest.parent(tree, Rank(rank)).map(|parent| parent.0)).collect();
        let names: Vec<String> = (0..plan.forest.ranks()).map(|rank| plan.name(Rank(rank))).collect();
        let leaves: Option<Vec<Option<&str>>> =
            switches.map(|switches| names.iter().map(|name| switches.leaf(name)).collect());
        let row = |group: Group| {
            let mut nodes: Vec<u32> = group.ranks.iter().map(|&rank| plan.node(Rank(rank))).collect();
            nodes.sort_unstable();
            let names = nodes.into_iter().map(|node| plan.node_name(node));
            let names = Hostlist::from_names(names).unwrap_or_default().to_string();
            let switches = leaves.as_ref().map(|leaves| switches_of(&group.ranks, leaves));
            Row { group, names, switches }
        };
        let near = leaves.as_ref().map(|leaves| {
            let links = (0..).zip(&parents).filter_map(|(rank, parent): (usize, _)| Some((rank, (*parent)? as usize)));
            let is_near = |&(rank, parent): &(usize, usize)| leaves[rank].is_some() && leaves[rank] == leaves[parent];
            (links.clone().filter(is_near).count() as u32, links.count() as u32)
        });
        let rows = fold(plan.forest.root(tree).0, &parents).into_iter().map(row).collect();
        Picture { tree: tree.0, trees: plan.forest.trees(), rows, near }
    }

    fn near(&self) -> Option<String> {
        let (near, all) = self.near?;
        Some(format!("{} of {} links join nodes of one switch", grouped(near.into()), grouped(all.into())))
    }
}

/// Returns the switches of these ranks.
fn switches_of(ranks: &[u32], leaves: &[Option<&str>]) -> SwitchSet {
    let mut found: Vec<Option<&str>> = ranks.iter().map(|&rank| leaves[rank as usize]).collect();
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [Some(one)] => SwitchSet::One(shortened(one, SWITCH_MAX)),
        [None] => SwitchSet::Unknown,
        _ => SwitchSet::Several(found.len()),
    }
}

impl fmt::Display for SwitchSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SwitchSet::One(name) => f.write_str(name),
            SwitchSet::Several(number) => f.write_str(&grouped(*number as u64)),
            SwitchSet::Unknown => f.write_str("unknown"),
        }
    }
}

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = if self.trees > 1 { "; --tree T draws another one" } else { "" };
        writeln!(f, "Tree {}{others}:", self.tree)?;
        let has_switches = self.near.is_some();
        let mut cells = vec![vec!["NODES".to_owned(), "CHILDREN EACH".into(), "BELOW EACH".into()]];
        cells[0].extend(has_switches.then(|| "SWITCHES".into()));
        for Row { group, switches, .. } in &self.rows {
            let mut row = vec![grouped(group.ranks.len() as u64), range(group.children), range(group.below)];
            row.extend(switches.as_ref().map(SwitchSet::to_string));
            cells.push(row);
        }
        let cells = columns(&cells, 0);
        let numbers = cells.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let lines: Vec<(String, &str)> =
            self.branches().into_iter().zip(self.rows.iter().map(|row| &*row.names)).collect();
        let widest =
            lines.iter().map(|(branch, names)| branch.chars().count() + names.chars().count()).max().unwrap_or(0);
        let deepest = lines.iter().map(|(branch, _)| branch.chars().count()).max().unwrap_or(0);
        let width = widest.min((WIDTH - 2).saturating_sub(numbers)).max(deepest + NAMES_MIN);
        let heading = String::new();
        let names = lines.into_iter().map(|(branch, names)| {
            let room = width - branch.chars().count();
            branch + &shortened(names, room)
        });
        for (names, numbers) in std::iter::once(heading).chain(names).zip(cells.lines()) {
            let padding = " ".repeat(width - names.chars().count());
            writeln!(f, "{}", format!("{names}{padding}  {numbers}").trim_end())?;
        }
        self.near().map_or(Ok(()), |near| writeln!(f, "{near}"))
    }
}

impl Picture {
    /// Returns the lines that join each row with the one above it.
    fn branches(&self) -> Vec<String> {
        let indents: Vec<usize> = self.rows.iter().map(|row| row.group.indent).collect();
        let is_last = |at: usize, indent: usize| {
            let after = indents[at + 1..].iter().find(|&&other| other <= indent);
            after.is_none_or(|&other| other < indent)
        };
        let branch = |at: usize| {
            let mut text = String::new();
            for indent in 1..=indents[at] {
                let own = indent == indents[at];
                text += match (is_last(at, indent), own) {
                    (true, true) => "└ ",
                    (false, true) => "├ ",
                    (true, false) => "  ",
                    (false, false) => "│ ",
                };
            }
            text
        };
        (0..indents.len()).map(branch).collect()
    }

    /// Returns the tree as a drawing: the reader at the left, a box for each group.
    pub fn svg(&self) -> String {
        let places = self.places();
        let deepest = self.rows.iter().map(|row| row.group.indent).max().unwrap_or(0);
        let lowest = places.iter().map(|place| place.1).fold(0.0, f64::max);
        let (width, height) =
            (2.0 * MARGIN + deepest as f64 * ACROSS + BOX_WIDTH + BEHIND * 2.0, lowest + BOX_HEIGHT + 2.0 * MARGIN);
        let members: usize = self.rows.iter().map(|row| row.group.ranks.len()).sum();
        let near = self.near().map(|near| format!("; {near}")).unwrap_or_default();
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<style>{STYLE}</style>\n\
             <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n<text x=\"{MARGIN}\" y=\"28\" font-size=\"15\">\
             Tree {} of {}: {} nodes</text>\n<text class=\"note\" x=\"{MARGIN}\" y=\"46\">{}{near}</text>\n",
            self.tree,
            self.trees,
            grouped(members as u64),
            "files go from left to right"
        );
        for indent in 0..=deepest {
            let levels = self.rows.iter().filter(|row| row.group.indent == indent).map(|row| row.group.levels);
            let (low, high) = levels.fold((u32::MAX, 0), |(low, high), one| (low.min(one.0), high.max(one.1)));
            let x = MARGIN + indent as f64 * ACROSS;
            let heading = if indent == 0 { "reader".into() } else { format!("level {}", range((low, high))) };
            let _ = writeln!(svg, "<text class=\"note\" x=\"{x}\" y=\"70\">{heading}</text>");
        }
        for (at, (row, place)) in self.rows.iter().zip(&places).enumerate() {
            let above = self.rows[..at].iter().rposition(|other| other.group.indent < row.group.indent);
            if let Some(above) = above {
                link(&mut svg, places[above], *place);
            }
            row.draw(&mut svg, *place);
        }
        svg + "</svg>\n"
    }

    /// Returns whether there is no row below this one.
    fn is_end(&self, at: usize) -> bool {
        self.rows.get(at + 1).is_none_or(|next| next.group.indent <= self.rows[at].group.indent)
    }

    /// Returns the left upper corner of each row's box. A box stands in the middle of those at its right.
    fn places(&self) -> Vec<(f64, f64)> {
        let mut places = vec![(0.0, 0.0); self.rows.len()];
        let mut next = (0..self.rows.len()).filter(|&at| self.is_end(at)).count() as f64;
        for at in (0..self.rows.len()).rev() {
            let indent = self.rows[at].group.indent;
            let below = self.rows[at + 1..].iter().take_while(|other| other.group.indent > indent).enumerate();
            let ends: Vec<f64> = below
                .filter(|(_, row)| row.group.indent == indent + 1)
                .map(|(after, _)| places[at + 1 + after].1)
                .collect();
            let y = match (ends.first(), ends.last()) {
                (Some(first), Some(last)) => (first + last) / 2.0,
                _ => {
                    next -= 1.0;
                    TOP + next * DOWN
                }
            };
            places[at] = (MARGIN + indent as f64 * ACROSS, y);
        }
        places
    }
}

impl Row {
    fn draw(&self, svg: &mut String, (x, y): (f64, f64)) {
        let Row { group, names, switches } = self;
        let class = match (group.indent, group.children.1) {
            (0, _) => "reads",
            (_, 0) => "leaf",
            _ => "sends",
        };
        let behind = (group.ranks.len() - 1).min(2);
        for number in (0..=behind).rev() {
            let off = number as f64 * BEHIND;
            let (x, y) = (x + off, y - off);
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"5\"/>"
            );
        }
        let number = grouped(group.ranks.len() as u64);
        let mut facts: Vec<String> = Vec::new();
        facts.extend((group.ranks.len() > 1).then(|| format!("{number} nodes")));
        facts.extend((group.indent == 0).then(|| "reads".into()));
        let children = if group.children.1 == 1 { "child" } else { "children" };
        let each = if group.ranks.len() > 1 { " each" } else { "" };
        facts.extend((group.children.1 > 0).then(|| format!("{} {children}{each}", range(group.children))));
        facts.extend(switches.as_ref().map(|switches| match switches {
            SwitchSet::Several(_) => format!("{switches} switches"),
            SwitchSet::One(_) => switches.to_string(),
            SwitchSet::Unknown => "unknown switch".into(),
        }));
        let _ = writeln!(
            svg,
            "<g><title>{}</title><text x=\"{}\" y=\"{}\">{}</text><text class=\"note\" x=\"{}\" y=\"{}\" font-size=\"10\">{}</text></g>",
            escaped(&shortened(names, 400)),
            x + 8.0,
            y + 16.0,
            escaped(&shortened(names, BOX_NAMES_MAX)),
            x + 8.0,
            y + 30.0,
            escaped(&facts.join(", ")),
        );
    }
}

/// Draws a link from the right of a box to the left of another.
fn link(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let (x, y) = (from.0 + BOX_WIDTH, from.1 + BOX_HEIGHT / 2.0);
    let (end, low) = (to.0, to.1 + BOX_HEIGHT / 2.0);
    let middle = (x + end) / 2.0;
    let _ = writeln!(svg, "<path class=\"link\" d=\"M{x} {y}C{middle} {y} {middle} {low} {end} {low}\"/>");
}

/// Returns `low-high`, or one number.
fn range((low, high): (u32, u32)) -> String {
    if low == high { grouped(low.into()) } else { format!("{}-{}", grouped(low.into()), grouped(high.into())) }
}

/// Shortens a hostlist to so many characters; what is left out in the middle is `…`.
fn shortened(names: &str, room: usize) -> String {
    let all: Vec<char> = names.chars().collect();
    if all.len() <= room {
        return names.to_owned();
    }
    let rest = room.saturating_sub(1);
    let tail = rest / 3;
    let (first, last) = (&all[..rest - tail], &all[all.len() - tail..]);
    // At commas and brackets, so that no number is cut.
    let first = first.iter().rposition(|&one| matches!(one, ',' | '[')).map_or(first, |comma| &first[..=comma]);
    let end = &last[last.len() - usize::from(names.ends_with(']'))..];
    let last = last.iter().position(|&one| one == ',').map_or(end, |comma| &last[comma..]);
    first.iter().chain(&['…']).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Arrangement;
    use crate::topology::options::{ShapeOptions, local_nodes};

    fn picture(nodes: u32, switches: Option<&str>) -> Picture {
        let hosts = local_nodes(nodes);
        let switches = switches.map(|racks| Switches::parse_racks(racks).unwrap());
        let arrangement = Arrangement::new(&ShapeOptions::default(), &hosts, switches.as_ref()).unwrap();
        Picture::new(&Plan::new(&hosts, &arrangement), TreeId(0), switches.as_ref())
    }

    #[test]
    fn a_tree_has_few_lines() {
        let expected = "Tree 0; --tree T draws another one:\n\
                        \u{20}                   NODES  CHILDREN EACH  BELOW EACH\n\
                        n0                      1              1          15\n\
                        └ n2                    1              8          14\n\
                        \u{20} ├ n10                 1              6           6\n\
                        \u{20} │ └ n[9,11-15]        6              0           0\n\
                        \u{20} └ n[1,3-8]            7              0           0\n";
        assert_eq!(picture(16, None).to_string(), expected);
        for nodes in [1, 2, 3, 4, 17, 256, 5000, 20_000] {
            let text = picture(nodes, None).to_string();
            assert!(text.lines().count() < 45 && text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        }
    }

    #[test]
    fn switches_are_counted() {
        let racks = "n[0-7] rack7\nn[8-13] 12\n";
        let text = picture(16, Some(racks)).to_string();
        assert!(text.contains("SWITCHES") && text.contains("of 15 links join nodes of one switch"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("n0 ") && line.ends_with("  rack7")), "{text}");
        let svg = picture(16, Some(racks)).svg();
        assert!(svg.contains("reads, 1 child, rack7<") && svg.contains(" switches<"), "{svg}");
        let svg = picture(4, Some("n[0-3] </text><script>\n")).svg();
        assert!(svg.contains("&lt;/text&gt;") && !svg.contains("<script"), "{svg}");
        assert!(Switches::parse_racks("n1 a\u{202e}\n").is_err());
    }

    #[test]
    fn a_drawing_has_a_box_for_each_group() {
        let svg = picture(5000, None).svg();
        assert!(
            svg.contains("Tree 0 of 8: 5,000 nodes") && svg.contains(">540 nodes, 8-9 children each</text>"),
            "{svg}"
        );
        assert_eq!((svg.matches("<g>").count(), svg.matches("class=\"link\"").count()), (7, 6));
        assert!(svg.contains("reads, 1 child<"));
    }

    #[test]
    fn long_names_lose_their_middle() {
        let check = |names: &str, room: usize, expected: &str| assert_eq!(shortened(names, room), expected);
        check("n[1,3,5]", 8, "n[1,3,5]");
        check("n[1,3,5,7,9,11,13,15]", 16, "n[1,3,5,7,…,15]");
        check("n[100000-199999,200001-299999]", 20, "n[…]");
        check("a-very-long-name-of-a-node", 10, "a-very…");
    }
}
