//! Names of users, as this node's own list has them. No service is asked, which might not answer.

use std::fs;

/// The list.
const USERS: &str = "/etc/passwd";

/// Returns a user's name, if the list has it.
pub fn name(uid: u32) -> Option<String> {
    find(&fs::read_to_string(USERS).ok()?, uid)
}

/// Returns a user's name in a list (passwd(5)).
fn find(users: &str, uid: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_number() {
        let users = "root:x:0:0::/:/bin/sh\nbroken\nalice:x:1000:9::/:\n";
        assert_eq!(find(users, 0).as_deref(), Some("root"));
        assert_eq!(find(users, 1000).as_deref(), Some("alice"));
        assert_eq!((find(users, 9), find("", 0)), (None, None));
    }
}
