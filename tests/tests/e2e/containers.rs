//! Programs in containers see the image's files and the scope's, and both are read from the shared file system once.

use std::fs;
use std::path::Path;
use std::process::Command;

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, Headwater, Mechanism, Program, has_program, skipped, user};
use headwater_tests::needs_root;

const NODES: usize = 4;
/// What the host has of these programs is copied to the image.
const PROGRAMS: [&str; 3] = ["sh", "cat", "ls"];
/// What tools mount over files and directories of an image.
const DIRECTORIES: [&str; 8] = ["data", "dev", "etc", "home", "mnt", "proc", "sys", "tmp"];
const FILES: [&str; 4] = ["etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf"];
const SCRIPT: &str = "cat /data/inside /mnt/bound; ls -l /data /mnt; cat /data/absent; ls / | cat";
/// What programs of the images run: of a copy of the host's, and of musl's.
const COMMANDS: [(&str, &[&str]); 3] = [
    ("image", &["sh", "-c", SCRIPT]),
    ("musl", &["/bin/show", "/data/inside", "/mnt/bound", "/data/absent"]),
    ("musl", &["/bin/static", "/data/inside", "/mnt/bound", "/data/absent"]),
];
const MUSL_LOADER: &str = "lib/ld-musl-x86_64.so.1";
/// Copies files to standard output.
const SHOW: &str = "#include <stdio.h>
int main(int count, char **paths)
{
	for (int byte, n = 1; n < count; n++) {
		FILE *file = fopen(paths[n], \"r\");
		while (file && (byte = getc(file)) != EOF)
			putchar(byte);
		if (!file)
			perror(paths[n]);
	}
	return 0;
}
";

/// Runs a command that prepares something.
fn prepare(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("paths are text")
}

/// Copies a program to the same path in the image, with all that its loader needs.
fn copy(image: &Path, program: &Path) {
    let listed = prepare(Command::new("ldd").arg(program));
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
    for file in libraries.chain([program]) {
        let to = image.join(file.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(to.parent().expect("in the image")).expect("an own directory");
        fs::copy(file, to).expect("an own directory");
    }
}

/// Makes an image of musl's programs, if this machine can.
fn add_musl(fixture: &Fixture) {
    let loader = Path::new("/").join(MUSL_LOADER);
    if !has_program("musl-gcc") || !loader.exists() {
        return skipped("musl-gcc is not installed (package musl-tools)");
    }
    let source = fixture.outside("show.c");
    fs::write(&source, SHOW).expect("an own directory");
    let image = fixture.dir("musl");
    for (name, options) in [("show", &[][..]), ("static", &["-static"])] {
        let to = fixture.dir("musl/bin").join(name);
        prepare(Command::new("musl-gcc").args(options).arg("-o").arg(to).arg(&source));
    }
    fixture.dir("musl/lib");
    fs::copy(loader, image.join(MUSL_LOADER)).expect("an own directory");
}

/// Images, and directories that are bound in them.
fn fixture() -> Fixture {
    let fixture = Fixture::new("containers");
    add_musl(&fixture);
    let image = fixture.dir("image");
    for name in PROGRAMS {
        copy(&image, &Path::new("/bin").join(name));
    }
    for image in ["image", "musl"].into_iter().filter(|image| fixture.path(image).exists()) {
        DIRECTORIES.iter().for_each(|name| drop(fixture.dir(&format!("{image}/{name}"))));
        FILES.iter().for_each(|name| drop(fixture.file(&format!("{image}/{name}"), "", 0o644)));
        fixture.file(&format!("{image}/data/inside"), "in the image\n", 0o644);
    }
    fixture.file("bound/bound", "in the scope\n", 0o644);
    fixture
}

/// Each command in each tool, by the directory in which images and scope are.
fn containers(shared: &Path, user: &[&str]) -> Vec<Program> {
    let commands = COMMANDS.into_iter().filter(|(image, _)| shared.join(image).exists());
    commands
        .flat_map(|(image, command)| tools(shared, image, user).into_iter().map(move |tool| tool.args(command)))
        .collect()
}

/// Each tool with its options.
fn tools(shared: &Path, image: &str, user: &[&str]) -> Vec<Program> {
    let at = |name: &str| shared.join(name).display().to_string();
    let bound = format!("{}:/mnt", at("bound"));
    let mut tools = Vec::new();
    if has_program("bwrap") {
        tools.push(
            Program::new("bwrap")
                .args(["--bind", &at(image), "/", "--ro-bind", &at("bound"), "/mnt"])
                .args(["--dev", "/dev", "--proc", "/proc"]),
        );
    }
    if has_program("ch-run") {
        let images = [image.to_owned(), format!("{image}.sqfs")].map(|image| at(&image));
        for image in images.into_iter().filter(|image| Path::new(image).exists()) {
            tools.push(Program::new("ch-run").env("USER", "user").args(["-b", &bound, &image, "--"]));
        }
    }
    if user.is_empty() {
        let bind = format!("mount --bind {} {}/mnt && exec chroot {1} \"$@\"", at("bound"), at(image));
        tools.push(Program::new("unshare").args(["--mount", "sh", "-c", &bind, "sh"]));
    }
    tools
}

fn check(shared: &Path, user: &[&str], session: impl Fn() -> Headwater) -> usize {
    let containers = containers(shared, user);
    for container in &containers {
        let plain = container.behind(user.iter().copied()).run();
        assert!(plain.stdout.starts_with("in the image\nin the scope\n"), "{plain:?}");
        let served = session().via(Mechanism::Namespace).run(container);
        served.output.assert_same(&plain);
        served.assert_served();
    }
    containers.len()
}

#[test]
fn programs_in_containers_are_served() {
    needs_root!();
    let fixture = fixture();
    if has_program("mksquashfs") {
        let (image, file) = (fixture.path("image"), fixture.path("image.sqfs"));
        prepare(Command::new("mksquashfs").arg(image).arg(file).args(["-quiet", "-no-progress"]));
    }
    check(&fixture.shared(), &[], || fixture.headwater());
    let ordinary = ordinary(&fixture);
    let ordinary: Vec<&str> = ordinary.iter().map(String::as_str).collect();
    if check(&fixture.shared(), &ordinary, || fixture.headwater().behind(&ordinary)) == 0 {
        skipped("neither bwrap nor ch-run is installed");
    }
}

/// Arguments that run a command as an ordinary user who may use FUSE.
fn ordinary(fixture: &Fixture) -> Vec<String> {
    let device = fixture.outside("fuse");
    fs::create_dir(&device).expect("an own directory");
    user::with_fuse(&user::ORDINARY, &device)
}

/// enroot binds `/dev/shm` so. A namespace within another may not leave out mounts in it.
#[test]
fn a_container_binds_shared_memory_alone() {
    needs_root!();
    let fixture = fixture();
    // Other tests' sessions may have mounts there.
    let unmount = "awk '$5 ~ \"^/dev/shm/\" { print $5 }' /proc/self/mountinfo | xargs -r umount -l; exec \"$@\"";
    let alone = ["unshare", "--mount", "sh", "-c", unmount, "sh"].map(String::from);
    let ordinary: Vec<String> = alone.into_iter().chain(ordinary(&fixture)).collect();
    let bind = "cat bound/bound && mount --bind /dev/shm /mnt && echo yes";
    let container = Program::new("unshare").args(["--user", "--map-root-user", "--mount", "sh", "-c", bind]);
    let container = container.in_dir(fixture.shared());
    let plain = container.behind(&ordinary).run();
    assert_eq!(plain.stdout, "in the scope\nyes\n", "{plain:?}");
    let session = fixture.headwater().behind(&ordinary).via(Mechanism::Namespace).run(&container);
    session.output.assert_same(&plain);
    session.assert_served();
}

#[test]
fn nodes_read_an_image_once() {
    needs_root!();
    let fixture = fixture();
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching { ttl_ms: 60_000, pages: true }) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    for container in containers(mounted.path(), &[]) {
        let plain = container.run();
        mounted.reset();
        let session = Headwater::new(mounted.path()).via(Mechanism::Namespace).on(NODES, 1).run(&container);
        assert_eq!(session.output.stdout.len(), plain.stdout.len() * NODES, "{:?}", session.output);
        let counts = mounted.counts();
        let opens = counts["paths"].as_object().expect("counts by path");
        let opens = opens.iter().filter_map(|(path, counts)| Some((path, counts["open"].as_u64()?)));
        let opens: Vec<_> = opens.filter(|(_, opens)| *opens > 0).collect();
        assert!(opens.len() >= PROGRAMS.len() && opens.iter().all(|(_, opens)| *opens == 1), "{opens:?}");
    }
}
