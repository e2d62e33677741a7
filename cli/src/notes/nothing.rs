//! Why a scope has nothing to serve.

use std::path::{Path, PathBuf};

use headwater_closure::scope::{Cause, EXCLUDE, Refused, Scope, belongs_to_system};

/// How the user names a directory.
#[derive(Clone, Copy, Debug)]
pub struct Naming<'a> {
    /// The option, to be followed by a directory.
    pub option: &'a str,
    /// The home directory.
    pub home: Option<&'a Path>,
}

/// Returns why a program's scope has nothing to serve: the object, the cause, and the next step.
pub fn why_nothing(scope: &Scope, naming: Naming<'_>) -> String {
    let refused = || scope.refused.iter().filter(|refused| refused.reason != EXCLUDE);
    let named = refused().find(|refused| matches!(refused.cause, Cause::Unusable(_)));
    let Some(Refused { path, cause, .. }) = named.or(refused().next()) else {
        return format!("no directory of the program is on a network file system; {}", naming.any());
    };
    let shown = path.display();
    match cause {
        Cause::Unusable(why) => format!("{}{shown}: {why}", naming.option),
        Cause::Excluded => format!("{shown} is excluded; leave out --exclude, or {}", naming.any()),
        Cause::TooMany(_) => format!("{shown} is one of too many directories; {}", naming.any()),
        Cause::Local => format!("{shown} is on a local file system; {}", naming.step(path)),
        Cause::Protected(what) => format!("{shown} is {what}, and taken only by name; {}", naming.step(path)),
    }
}

impl Naming<'_> {
    /// Returns the next step for a program in this directory.
    fn step(self, directory: &Path) -> String {
        match self.installation(directory) {
            Some(top) => format!("add {}{}", self.option, top.display()),
            None => self.any(),
        }
    }

    fn any(self) -> String {
        format!("name the directories of your software with {}DIR", self.option)
    }

    /// Returns the directory to serve for a program in `directory`: with the libraries beside its `bin`.
    fn installation(self, directory: &Path) -> Option<PathBuf> {
        let above = directory.parent().filter(|_| directory.ends_with("bin"));
        let may_be_named =
            |path: &&Path| !belongs_to_system(path) && !self.home.is_some_and(|home| home.starts_with(path));
        above.into_iter().chain([directory]).find(may_be_named).map(Path::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &str, cause: Cause) -> Refused {
        Refused { path: path.into(), reason: "directory of app".into(), cause }
    }

    #[track_caller]
    fn check(refused: &[Refused], expected: &str) {
        let scope = Scope { refused: refused.to_vec(), ..Scope::default() };
        let naming = Naming { option: "--shared ", home: Some(Path::new("/home/u")) };
        assert_eq!(why_nothing(&scope, naming), expected);
    }

    #[test]
    fn the_object_the_cause_and_the_next_step() {
        let local = |path| refused(path, Cause::Local);
        let any = "name the directories of your software with --shared DIR";
        check(&[], &format!("no directory of the program is on a network file system; {any}"));
        check(
            &[local("/home/u/app"), local("/usr/bin")],
            "/home/u/app is on a local file system; add --shared /home/u/app",
        );
        check(&[local("/home/u/app/bin")], "/home/u/app/bin is on a local file system; add --shared /home/u/app");
        check(&[local("/home/u/bin")], "/home/u/bin is on a local file system; add --shared /home/u/bin");
        for whole in ["/home/u", "/usr/bin", "/", "/tmp", "/home"] {
            check(&[local(whole)], &format!("{whole} is on a local file system; {any}"));
        }
        check(
            &[refused("/nfs/w", Cause::Protected("the working directory".into()))],
            "/nfs/w is the working directory, and taken only by name; add --shared /nfs/w",
        );
        check(&[refused("/nfs/sw", Cause::Excluded)], &format!("/nfs/sw is excluded; leave out --exclude, or {any}"));
    }

    #[test]
    fn what_the_user_has_named_comes_first() {
        let file = Cause::Unusable("it is not a directory; name /sw, which contains it".into());
        check(
            &[refused("/home/u/app", Cause::Local), refused("/sw/app", file)],
            "--shared /sw/app: it is not a directory; name /sw, which contains it",
        );
    }
}
