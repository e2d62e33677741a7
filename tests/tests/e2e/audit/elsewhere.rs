//! A process that switches to other files under the same names (a container's, another namespace's, what is mounted
//! over the scope) finds those, by whatever call it switches.

use headwater_tests::harness::{Fixture, Program, is_root, skipped};

/// Each method of `tests/programs/audit/elsewhere.c`.
const METHODS: [&str; 15] = [
    "unshare",
    "raw-unshare",
    "chroot",
    "raw-chroot",
    "pivot_root",
    "same-root",
    "clone",
    "raw-clone",
    "raw-clone3",
    "setns",
    "raw-setns",
    "mount",
    "raw-mount",
    "move_mount",
    "user",
];

/// The session's namespaces, in which mounts are allowed and end with it; `None` where that is impossible.
fn own_namespaces() -> Option<Vec<&'static str>> {
    let own = ["unshare", "--mount", "--propagation", "private"];
    let own: Vec<&str> = own.into_iter().chain((!is_root()).then_some("--map-root-user")).collect();
    let is_allowed = Program::new("mount").args(["-t", "tmpfs", "none", "/mnt"]).behind(&own).run().status == 0;
    is_allowed.then_some(own)
}

/// A directory `pkg` of the scope, another beside it, and an image that has the other in place of the first.
fn fixture() -> Fixture {
    let fixture = Fixture::new("elsewhere");
    fixture.file("pkg/file", "here, on the host\n", 0o644);
    fixture.file("pkg/only-here", "", 0o644);
    fixture.file("pkg/only-here-too", "", 0o644);
    let pkg = fixture.path("pkg");
    let image = fixture.outside("image").join(pkg.strip_prefix("/").expect("an absolute path"));
    for other in [fixture.outside("other"), image] {
        std::fs::create_dir_all(&other).expect("an own directory");
        for (name, content) in [("file", "there\n"), ("only-there", "")] {
            std::fs::write(other.join(name), content).expect("an own directory");
        }
    }
    fixture
}

#[test]
fn a_process_finds_what_is_there_where_it_goes() {
    let Some(own) = own_namespaces() else { return skipped("this user may not mount") };
    let fixture = fixture();
    let app = fixture.build("audit/elsewhere.c", "bin/elsewhere", &[]);
    let commands = METHODS.map(|method| {
        let directories = [fixture.path("pkg"), fixture.outside("other"), fixture.outside("image")];
        let directories = directories.map(|directory| directory.display().to_string()).join(" ");
        format!("{} {method} {directories}", app.display())
    });
    for command in &commands {
        // Each in a session of its own: after a mount, or where others may write, each process checks by itself.
        fixture.headwater().behind(&own).same_output(&Program::shell(command));
    }
    fixture.headwater().behind(&own).same_output(&Program::shell(&commands.join("; ")));
}

#[test]
fn tools_that_make_containers_are_followed() {
    let Some(own) = own_namespaces() else { return skipped("this user may not mount") };
    let fixture = fixture();
    let (pkg, other, image) = (fixture.path("pkg"), fixture.outside("other"), fixture.outside("image"));
    let (pkg, other, image) = (pkg.display(), other.display(), image.display());
    let script = format!("cat {pkg}/file; ls {pkg}; test -e {pkg}/only-there && echo there");
    for script in [
        format!("{script}; unshare --mount sh -c 'mount --bind {other} {pkg}; {script}'; {script}"),
        format!(
            "{script}; unshare --mount sh -c 'mount --rbind / {image}; mount --bind {other} {image}{pkg}; \
             chroot {image} sh -c \"{script}\"; {script}'; {script}"
        ),
        format!("{script}; stat -c '%U %u' {pkg}/file; unshare --user stat -c '%U %u' {pkg}/file"),
        format!("mount --bind {other} {pkg}; {script}; umount {pkg}; {script}"),
        format!("{script}; mount --bind {other} {pkg}; {script}; umount {pkg}; {script}"),
    ] {
        fixture.headwater().behind(&own).same_output(&Program::shell(&script));
    }
}
