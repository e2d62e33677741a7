//! Options that exclude each other. One that is set at a higher place (the command line, then variables, then files) makes
//! its opposites at lower places void.

/// Switches of which one counts.
pub const POLICIES: [&str; 3] = ["push", "pull", "adaptive"];
/// The same, for the summary.
pub const SUMMARIES: [&str; 2] = ["summary", "no_summary"];
/// Options that each describe all trees.
const SHAPES: [&str; 3] = ["trees", "groups", "fan_out"];

/// An option that is set.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Its name in the definition.
    pub id: &'a str,
    /// Whether it is a switch that is on, or a number.
    pub is_on_or_number: bool,
}

impl<'a> Given<'a> {
    /// Returns the option with this value.
    pub fn new(id: &'a str, value: &str) -> Given<'a> {
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let is_switch = POLICIES.contains(&id) || SUMMARIES.contains(&id);
        // As clap's parser of switches has it.
        let is_off = ["", "n", "no", "f", "false", "off", "0"].contains(&&*value.to_lowercase());
        Given { id, is_on_or_number: if is_switch { !is_off } else { is_number } }
    }

    /// Returns whether an option makes one of a lower place void.
    pub fn overrules(self, lower: Given<'_>) -> bool {
        let are_both = |ids: &[&str]| ids.contains(&self.id) && ids.contains(&lower.id) && self.id != lower.id;
        if are_both(&POLICIES) || are_both(&SUMMARIES) {
            return self.is_on_or_number;
        }
        match lower.id {
            "groups" | "fan_out" if self.id == "readers" => self.is_on_or_number,
            "trees" | "groups" | "fan_out" => SHAPES.contains(&self.id) && self.id != lower.id,
            // A list of nodes goes with any trees.
            "readers" => SHAPES.contains(&self.id) && lower.is_on_or_number,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opposites_are_void() {
        for (higher, lower, expected) in [
            (("push", "true"), ("pull", "true"), true),
            (("push", "0"), ("pull", "true"), false),
            (("push", "1"), ("push", "false"), false),
            (("no_summary", "yes"), ("summary", "true"), true),
            (("summary", "1"), ("push", "1"), false),
            (("trees", "4"), ("fan_out", "2"), true),
            (("trees", "4"), ("readers", "2"), true),
            (("trees", "4"), ("readers", "n[0-1]"), false),
            (("readers", "2"), ("groups", "2"), true),
            (("readers", "n1"), ("groups", "2"), false),
            (("readers", "2"), ("trees", "2"), false),
            (("fan_out", "binomial"), ("trees", "2"), true),
            (("topology", "f"), ("trees", "2"), false),
        ] {
            let given = |(id, value)| Given::new(id, value);
            assert_eq!(given(higher).overrules(given(lower)), expected, "{higher:?} {lower:?}");
        }
    }
}
