//! An ordinary user's programs in a user namespace: each test is a line of docs/guide/transparency.md.

mod site;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use site::{Site, compile, eventually, skipped, text};

const UID: u32 = 1000;
const GID: u32 = 1000;
/// A group that the user belongs to, and one that it does not.
const SUPPLEMENTARY: u32 = 2000;
const FOREIGN: u32 = 3000;

/// Returns a site for an ordinary user; prints the reason and returns `None` if there can be none.
fn site() -> Option<Site> {
    let is_root = rustix::process::getuid().is_root();
    let probe = || as_user(Path::new("/"), "true", &[]).status().is_ok_and(|s| s.success());
    let why = if !is_root {
        Some("becoming another user needs root")
    } else if !Path::new("/dev/fuse").exists() {
        Some("there is no /dev/fuse")
    } else {
        (!probe()).then_some("setpriv and unshare don't work here")
    };
    if skipped(why) {
        return None;
    }
    let site = Site::new();
    for name in ["", "shared", "work", "lib"] {
        fs::set_permissions(site.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in ["store", "work"] {
        chown(site.path(name), Some(UID), Some(GID)).unwrap();
    }
    Some(site)
}

/// Returns a command that runs as the user, in a supplementary group, with a public `/dev/fuse`.
fn as_user(directory: &Path, program: &str, arguments: &[&str]) -> Command {
    let script = "mount -t tmpfs -o mode=755 headwater-test /mnt && mknod -m 666 /mnt/fuse c 10 229 && \
                  mount --bind /mnt/fuse /dev/fuse && cd \"$1\" && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]).arg(directory);
    command.arg("setpriv").arg(format!("--reuid={UID}")).arg(format!("--regid={GID}"));
    command.arg(format!("--groups={SUPPLEMENTARY}")).arg(program).args(arguments);
    command
}

/// Returns `headwater run` as the user, with these arguments, over `shared`.
fn headwater(site: &Site, arguments: &[&str]) -> Command {
    let inner = site.command(arguments);
    let arguments: Vec<&str> = inner.get_args().map(|word| word.to_str().unwrap()).collect();
    let mut command = as_user(&site.path("work"), env!("CARGO_BIN_EXE_headwater"), &arguments);
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Returns the output of a shell script in a user namespace.
#[track_caller]
fn inside(site: &Site, script: &str) -> String {
    let output = headwater(site, &["--via", "namespace", "--", "sh", "-c", script]).output().unwrap();
    finished(&output)
}

/// Returns its output for the same user without Headwater.
#[track_caller]
fn outside(site: &Site, script: &str) -> String {
    finished(&as_user(&site.path("work"), "sh", &["-c", script]).output().unwrap())
}

#[track_caller]
fn finished(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

fn own(path: &Path, uid: u32, gid: u32, mode: u32) {
    chown(path, Some(uid), Some(gid)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn auto_takes_the_namespace_but_not_for_what_it_would_harm() {
    let Some(site) = site() else { return };
    let chosen = |program: &str| {
        let output = headwater(&site, &["--via", "auto", "--show-scope", "--", program]).output().unwrap();
        text(&output.stdout).lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(chosen("sh"), "via namespace: the kernel lets this user mount in a user namespace");
    let copier = site.path("work/rsync");
    fs::copy("/bin/true", &copier).unwrap();
    assert!(chosen(copier.to_str().unwrap()).starts_with("via audit: rsync may use ssh"));
    own(&copier, 0, 0, 0o4755);
    fs::rename(&copier, site.path("work/tool")).unwrap();
    assert!(chosen(site.path("work/tool").to_str().unwrap()).starts_with("via off: tool is set-user-ID"));
    site.assert_clean();
}

#[test]
fn a_program_has_its_ids_and_no_capabilities() {
    let Some(site) = site() else { return };
    let script =
        "id -u; id -g; id -G; grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status; grep NoNewPrivs /proc/self/status";
    let (inside, outside) = (inside(&site, script), outside(&site, script));
    assert_eq!(outside.replace(&SUPPLEMENTARY.to_string(), "65534"), inside);
    assert!(inside.starts_with("1000\n1000\n1000 65534\n"), "{inside}");
    for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(inside.contains(&format!("{name}:\t0000000000000000")), "{inside}");
    }
    site.assert_clean();
}

#[test]
fn others_files_belong_to_nobody_and_their_permissions_hold() {
    let Some(site) = site() else { return };
    for (name, uid, mode) in [("roots", 0, 0o644), ("own", UID, 0o600), ("secret", 0, 0o600)] {
        own(&site.write(&format!("shared/{name}"), "text\n"), uid, uid, mode);
    }
    own(&site.write("outside", "text\n"), 0, 0, 0o644);
    let path = |name: &str| site.path(name).display().to_string();
    let script = format!("stat -c '%u %g %a' {} {} {}", path("shared/roots"), path("shared/own"), path("outside"));
    assert_eq!(outside(&site, &script), "0 0 644\n1000 1000 600\n0 0 644\n");
    assert_eq!(inside(&site, &script), "65534 65534 644\n1000 1000 600\n65534 65534 644\n");
    let script =
        format!("cat {} {}; cat {} || echo no", path("shared/roots"), path("shared/own"), path("shared/secret"));
    assert_eq!(inside(&site, &format!("{{ {script}; }} 2>/dev/null")), "text\ntext\nno\n");
    site.assert_clean();
}

#[test]
fn supplementary_groups_let_in_and_foreign_ones_do_not() {
    let Some(site) = site() else { return };
    let mut script = String::new();
    for (name, group) in [("project", SUPPLEMENTARY), ("others", FOREIGN)] {
        for place in ["shared", "beside"] {
            let directory = site.path(place).join(name);
            fs::create_dir_all(&directory).unwrap();
            fs::set_permissions(site.path(place), fs::Permissions::from_mode(0o755)).unwrap();
            own(&site.write(&format!("{place}/{name}/file"), "text\n"), 0, group, 0o640);
            own(&directory, 0, group, 0o750);
            script += &format!("cat {0}/file 2>/dev/null || echo no; stat -c %g {0};", directory.display());
        }
    }
    assert_eq!(outside(&site, &script), "text\n2000\ntext\n2000\nno\n3000\nno\n3000\n");
    assert_eq!(inside(&site, &script), "text\n1000\ntext\n65534\nno\n65534\nno\n65534\n");
    site.assert_clean();
}

#[test]
fn what_others_let_this_user_write_is_written() {
    let Some(site) = site() else { return };
    let make = || {
        let _ = fs::remove_dir_all(site.path("shared"));
        for (name, group, mode) in [("project", SUPPLEMENTARY, 0o2775), ("scratch", 0, 0o1777), ("others", 0, 0o755)] {
            let directory = site.path("shared").join(name);
            fs::create_dir_all(&directory).unwrap();
            own(&site.write(&format!("shared/{name}/file"), "first\n"), 0, group, mode & 0o664);
            symlink("file", directory.join("roots")).unwrap();
            own(&directory, 0, group, mode);
        }
    };
    let script = format!(
        "exec 2>&1; for d in project scratch others; do cd {}/$d; cat roots; echo more >>file && cat file; echo new >new && cat new; \
         mkdir d && mv new d/moved && ls -A . d; rm -rf d; [ ! -w file ] || chmod 600 file || rm -f file; \
         ln -s file link; touch -d @9 file; test -w . && echo writable; ls -A; done",
        site.path("shared").display()
    );
    make();
    let outside = outside(&site, &script);
    assert!(outside.contains("more") && outside.contains("Operation not permitted"), "{outside}");
    make();
    assert_eq!(inside(&site, &script), outside);
    site.assert_clean();
}

#[test]
fn set_id_programs_gain_nothing() {
    let Some(site) = site() else { return };
    let script = format!("{0}/shared/id -u; {0}/tool -u", site.path("").display());
    for name in ["shared/id", "tool"] {
        fs::copy("/usr/bin/id", site.path(name)).unwrap();
        own(&site.path(name), 0, 0, 0o4755);
    }
    assert_eq!(outside(&site, &script), "0\n0\n");
    assert_eq!(inside(&site, &script), "1000\n1000\n");
    site.assert_clean();
}

#[test]
fn ssh_refuses_included_configuration_of_roots() {
    let Some(site) = site() else { return };
    if skipped(Command::new("ssh").arg("-V").output().is_err().then_some("there is no ssh")) {
        return;
    }
    let included = site.write("included", "Host *\n");
    let configuration = site.write("work/configuration", &format!("Include {}\n", included.display()));
    own(&included, 0, 0, 0o644);
    own(&configuration, UID, GID, 0o600);
    let script = format!(
        "ssh -G -F {} host 2>&1 | grep -o -e 'Bad owner or permissions' -e '^hostname host'",
        configuration.display()
    );
    assert_eq!(outside(&site, &script), "hostname host\n");
    assert_eq!(inside(&site, &script), "Bad owner or permissions\n");
    site.assert_clean();
}

#[test]
fn processes_of_a_node_reach_each_other() {
    let Some(site) = site() else { return };
    let program = site.path("shared/siblings");
    compile("siblings.c", &[], &program);
    let program = program.to_str().unwrap();
    let expected = "process_vm_readv works\nptrace works\nshmat works\nkill works\n";
    for via in ["off", "namespace"] {
        let meeting = site.path("work").join(via);
        let meeting = meeting.to_str().unwrap();
        let output = headwater(&site, &["--via", via, "--ppn", "2", "--", program, meeting]).output().unwrap();
        assert_eq!((text(&output.stdout), text(&output.stderr)), (expected.into(), String::new()), "{via}");
    }
    site.assert_clean();
}

#[test]
fn the_kernel_shows_original_paths_to_all() {
    let Some(site) = site() else { return };
    let program = site.path("shared/static");
    compile("read.c", &["-static"], &program);
    let data = site.write("shared/data", "the data\n");
    let shown = program.canonicalize().unwrap();
    let script = format!("{} {}", program.display(), data.display());
    assert_eq!(inside(&site, &script), format!("the data\n{0}\n{0}\n", shown.display()));
    let copy = site.path("shared/sleep");
    fs::copy("/bin/sleep", &copy).unwrap();
    let mut command = headwater(&site, &["--via", "namespace", "--", copy.to_str().unwrap(), "60"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let sleeper = || {
        let link = |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("shared/sleep"));
        site::processes_with(&site.path("store")).into_iter().find(link)
    };
    eventually("the program runs", || sleeper().is_some());
    let exe = fs::read_link(format!("/proc/{}/exe", sleeper().unwrap()));
    let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM);
    child.wait().unwrap();
    assert_eq!(exe.unwrap(), copy.canonicalize().unwrap());
    site.assert_clean();
}

#[test]
fn debuggers_attach_from_within_and_cores_name_originals() {
    let Some(site) = site() else { return };
    if skipped(Command::new("gdb").arg("-v").output().is_err().then_some("there is no gdb")) {
        return;
    }
    let copy = site.path("shared/sleep");
    fs::copy("/bin/sleep", &copy).unwrap();
    let script = format!(
        "{0} 60 & sleep 0.2; gdb -nx -batch -p $! -ex 'info inferiors' -ex 'generate-core-file core' >attached 2>&1; \
         kill $!; grep -q '{0}' attached && echo attached; \
         gdb -nx -batch -core core -ex 'info proc mappings' >mapped 2>&1; \
         grep -q '{0}' mapped && echo mapped; grep -c headwater mapped",
        copy.canonicalize().unwrap().display()
    );
    let output = headwater(&site, &["--via", "namespace", "--", "sh", "-c", &script]).output().unwrap();
    assert_eq!(text(&output.stdout), "attached\nmapped\n0\n", "{}", text(&output.stderr));
    site.assert_clean();
}

#[test]
fn namespaces_can_be_nested() {
    let Some(site) = site() else { return };
    let data = site.write("shared/data", "the data\n");
    let script = format!("unshare -Urm sh -c 'id -u; mount -t tmpfs none /mnt && cat {}'", data.display());
    assert_eq!(inside(&site, &script), "0\nthe data\n");
    let nested = format!(
        "{} run --via namespace --store {} --shared {} -- cat {}",
        env!("CARGO_BIN_EXE_headwater"),
        site.path("store").display(),
        site.path("shared").display(),
        data.display()
    );
    assert_eq!(inside(&site, &nested), "the data\n");
    site.assert_clean();
}

#[test]
fn processes_outside_can_be_signalled_but_not_inspected() {
    let Some(site) = site() else { return };
    let mut sleeper = as_user(Path::new("/"), "sleep", &["60"]).spawn().unwrap();
    let pid = sleeper.id();
    let is_users = || fs::metadata(format!("/proc/{pid}")).is_ok_and(|m| m.uid() == UID);
    eventually("the process is the user's", is_users);
    let script = format!(
        "ps -o user= -p 1; ps -o comm= -p {pid}; kill -0 {pid} && echo signals; readlink /proc/{pid}/cwd || echo hidden",
    );
    assert_eq!(outside(&site, &script), "root\nsleep\nsignals\n/\n");
    assert_eq!(inside(&site, &script), "nobody\nsleep\nsignals\nhidden\n");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    site.assert_clean();
}

#[test]
fn a_machine_that_allows_no_user_namespace_audits() {
    let Some(site) = site() else { return };
    // A limit of the user namespace that the test makes, not of the machine.
    let limit = "echo 0 > /proc/sys/user/max_user_namespaces; \"$@\"";
    let inner = headwater(
        &site,
        &["--via", "auto", "--summary-json", "summary.json", "--", "sh", "-c", "echo ${LD_AUDIT:+audited}"],
    );
    let mut outer = Command::new("unshare");
    outer.args(["--user", "--map-users=all", "--map-groups=all", "sh", "-c", limit, "sh"]).arg(inner.get_program());
    outer.args(inner.get_args()).envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = outer.output().unwrap();
    if skipped((!output.status.success()).then_some("a user namespace with all ids can't be made")) {
        return;
    }
    assert_eq!(text(&output.stdout), "audited\n", "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&fs::read(site.path("work/summary.json")).unwrap()).unwrap();
    assert!(summary["via_reason"].as_str().unwrap().contains("max_user_namespaces"), "{summary:#}");
    compile("siblings.c", &["-static"], &site.path("shared/static"));
    let program = site.path("shared/static");
    let inner = headwater(&site, &["--via", "auto", "--", program.to_str().unwrap()]);
    let mut outer = Command::new("unshare");
    outer.args(["--user", "--map-users=all", "--map-groups=all", "sh", "-c", limit, "sh"]).arg(inner.get_program());
    outer.args(inner.get_args()).envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let stderr = text(&outer.output().unwrap().stderr);
    let line = stderr.lines().next().unwrap_or_default();
    assert!(line.starts_with("headwater: not served: static is statically linked; and "), "{stderr}");
    assert!(line.contains("max_user_namespaces") && line.contains("`headwater doctor` shows"), "{stderr}");
    site.assert_clean();
}

#[test]
fn links_in_the_scope_lead_where_they_led() {
    let Some(site) = site() else { return };
    site.write("shared/data", "the data\n");
    symlink(site.path("shared/data"), site.path("shared/absolute")).unwrap();
    symlink("data", site.path("shared/relative")).unwrap();
    let script = format!("cd {}; cat absolute relative; readlink absolute relative", site.path("shared").display());
    assert_eq!(inside(&site, &script), outside(&site, &script));
    site.assert_clean();
}
