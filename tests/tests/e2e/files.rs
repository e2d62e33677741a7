//! Files and directories have the same value in every field, and only reading them is served by Headwater.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, Headwater, Mechanism, Program, is_root, no_second_namespace, skipped, user};

/// `tree` with one of everything that `files.c` checks.
fn tree(fixture: &Fixture) {
    fixture.file("tree/file", "forty-two bytes and some more of them, see\n", 0o644);
    fixture.file("tree/sub/inner", "inner", 0o640);
    fixture.file("tree/tool", "#!/bin/sh\necho tool\n", 0o755);
    fixture.file("tree/empty", "", 0o444);
    fixture.file("tree/secret", "secret", 0o000);
    fixture.file("tree/closed/x", "x", 0o644);
    fixture.file("tree/large", (0..300_000u32).map(|n| n.wrapping_mul(n) as u8).collect::<Vec<_>>(), 0o604);
    fixture.link("file", "tree/link");
    fixture.link("sub", "tree/dirlink");
    fixture.link("nowhere/at/all", "tree/dangling");
    fixture.link("loop", "tree/loop");
    fs::hard_link(fixture.path("tree/file"), fixture.path("tree/hard")).expect("an own directory");
    rustix::fs::mknodat(rustix::fs::CWD, fixture.path("tree/fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .expect("an own directory");
    if is_root() {
        chown(fixture.path("tree/tool"), Some(12345), Some(54321)).expect("root may");
    }
    fs::set_permissions(fixture.path("tree/closed"), fs::Permissions::from_mode(0o311)).expect("an own directory");
}

/// `files` on the tree; of a mount it leaves out the file system's own fields.
fn looking(via: Mechanism, fixture: &Fixture) -> Program {
    let files = fixture.build("files.c", "bin/files", &["-Wno-nonnull"]);
    Program::new(files).arg(fixture.path("tree")).args(via.is_mounted().then_some("mounted"))
}

pub fn everything_about_files_is_the_same(via: Mechanism) {
    let fixture = Fixture::new("files");
    tree(&fixture);
    let program = looking(via, &fixture);
    fixture.headwater().via(via).same_output(&program);
    fixture.headwater().via(via).on(2, 1).run(&program);
}

pub fn everything_is_the_same_for_an_ordinary_user(via: Mechanism) {
    if !is_root() {
        return skipped("another user's permissions need root");
    }
    let fixture = Fixture::new("user");
    tree(&fixture);
    if via.is_mounted() {
        // In a user namespace others' files seem to have no owner, so they are the user's own here.
        let own = Program::new("chown").args(["-Rh", "1:1"]).arg(fixture.shared()).run();
        assert_eq!(own.status, 0, "{own:?}");
        fs::set_permissions(fixture.path("tree/closed"), fs::Permissions::from_mode(0o311)).expect("root may");
    }
    // A mount namespace for each run would have another number for the same mount.
    let plain_user = user::ORDINARY.map(str::to_owned).to_vec();
    let user = if via.is_mounted() { fixture.commands_of(&user::ORDINARY) } else { plain_user };
    fixture.headwater().via(via).behind(&user).same_output(&looking(via, &fixture));
}

pub fn system_programs_see_the_same_tree(via: Mechanism) {
    let fixture = Fixture::new("tools");
    tree(&fixture);
    let tree = fixture.path("tree").display().to_string();
    let scripts = [
        format!("ls -laiR --time-style=full-iso {tree}"),
        format!("find {tree} -printf '%p %y %s %i %n %m %T@ %l\\n' | sort; cd {tree}; find . -name 'in*'"),
        format!(
            "cat {tree}/file {tree}/none; echo $?; head -c 100 {tree}/large | md5sum; tar cf - -C {tree} --exclude=fifo . | tar tf - | sort"
        ),
        format!("cd {tree}/dirlink && pwd -P && ls .. && cat ../file && test -x ../tool && ../tool"),
        format!("cp -a {tree}/sub {} && ls -l --time-style=full-iso {0}", fixture.outside("copy").display()),
        format!(
            "stat -c '%n %i %h %s %b %a %F' {tree}/file {tree}/link {tree}; realpath {tree}/link; readlink -f {tree}/dirlink/inner; du -a {tree} | sort"
        ),
    ];
    for script in scripts {
        let program =
            Program::shell(&format!("rm -rf {}; {script}", fixture.outside("copy").display())).env("LC_ALL", "C");
        program.run();
        fixture.headwater().via(via).same_output(&program);
    }
}

pub fn calls_that_symbol_binding_does_not_see(via: Mechanism) {
    if let Some(reason) = no_second_namespace(via) {
        return skipped(reason);
    }
    let fixture = Fixture::new("pointer");
    tree(&fixture);
    fixture.build("by_pointer.c", "lib/libpointer.so", &["-DLIBRARY", "-shared", "-fPIC", "-fno-plt"]);
    for flags in [&["-fno-plt", "-Wl,-z,now"][..], &["-fno-plt", "-no-pie", "-Wl,-z,lazy"], &["-Wl,-z,relro,-z,now"]] {
        fixture.build("by_pointer.c", "bin/app", flags);
        let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching::NONE) {
            Ok(mounted) => mounted,
            Err(reason) => return skipped(reason),
        };
        let at = |name: &str| mounted.path().join(name);
        let program = Program::new(at("bin/app")).args([at("tree/file"), at("tree/sub"), at("lib/libpointer.so")]);
        let plain = program.run();
        mounted.reset();
        let session = Headwater::new(mounted.path()).via(via).run(&program);
        assert_eq!(session.output, plain);
        let counts = mounted.counts();
        let count = |path: &str, kind: &str| counts["paths"][path][kind].as_u64().unwrap_or(0);
        assert_eq!(count("tree/file", "open"), 1, "{flags:?} {counts:#}");
        assert_eq!(count("tree/sub", "opendir"), 1, "{flags:?} {counts:#}");
    }
}

pub fn a_library_read_as_a_file_is_whole(via: Mechanism) {
    let fixture = Fixture::new("whole");
    let library = fixture.library("lib/libx.so", "x", &["-Wl,-z,common-page-size=65536"]);
    let program = Program::new(fixture.build("loader.c", "bin/app", &["-Wl,-rpath,$ORIGIN/../lib"]));
    let open = program.arg("open=libx.so").arg("call=x");
    let digest = |paths: &str| Program::shell(&format!("sha256sum {paths}; cmp {paths} && cat {paths} | cksum"));
    let both = format!("{0} {0}", library.display());
    let app = format!(
        "{} open=libx.so call=x exec=/usr/bin/sha256sum {1} call=x",
        fixture.path("bin/app").display(),
        library.display()
    );
    let sum = format!("sha256sum {0} {0}.alias", library.display());
    fixture.link("libx.so", "lib/libx.so.alias");
    for script in
        [format!("{app}; {sum}; {app}"), format!("{sum}; {app}; {sum}"), format!("{sum} & {app}; wait; {sum}")]
    {
        let script = if script.contains('&') { format!("({script}) | sort") } else { script };
        fixture.headwater().via(via).same(&Program::shell(&script));
    }
    fixture.headwater().via(via).same(&digest(&both));
    fixture.headwater().via(via).on(3, 2).run(&open);
}

/// Two file systems with files of the same numbers are mounted in the scope: a program that compares device and number
/// must not take two files for one, but two names of a file.
pub fn file_systems_with_the_same_numbers(via: Mechanism) {
    if !is_root() {
        return skipped("only root mounts");
    }
    let fixture = Fixture::new("systems");
    let shared = fixture.shared().display().to_string();
    fixture.file("a/below", "", 0o644);
    fixture.file("b/below", "", 0o644);
    fixture.file("compare.py", COMPARE, 0o644);
    let mounts = "for each in a b; do
        mount -t tmpfs tmpfs $0/$each && echo $each >$0/$each/one && ln $0/$each/one $0/$each/two || exit
        mkdir $0/$each/sub && echo $each >$0/$each/sub/three
    done && exec \"$@\"";
    let prefix = ["unshare", "--mount", "sh", "-c", mounts, &shared];
    let program = Program::new("python3").arg(fixture.path("compare.py")).arg(&shared);
    let session = fixture.headwater().via(via).behind(&prefix).same_output(&program);
    assert!(session.output.stdout.ends_with("10 files\n"), "{:?}", session.output);
}

const COMPARE: &str = "
import filecmp, os, sys
names = [os.path.join(sys.argv[1], system, name) for system in 'ab' for name in ('', 'one', 'two', 'sub', 'sub/three')]
for at, name in enumerate(names):
    for other in names[at + 1:]:
        if os.path.samefile(name, other):
            print(name, 'is', other)
for name in names:
    if os.path.isdir(name):
        for entry in os.scandir(name):
            print(entry.path, entry.inode() == os.stat(entry.path).st_ino)
print(filecmp.cmp(names[1], names[6], shallow=False), open(names[6]).read())
print(len(names), 'files')
";
