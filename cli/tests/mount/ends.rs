//! `headwater mount` and `headwater unmount`, and cleaning up after each kind of end.

use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, Stdio};

use crate::site::{eventually, text};
use crate::view::{View, content, is_dead};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_view_is_read_only_and_goes_without_a_trace() {
    let Some(view) = View::mounted(120, &[]) else { return };
    view.check(0..120);
    assert_eq!(fs::read_dir(view.mount_point()).unwrap().count(), 2);
    let absent = fs::read(view.mount_point().join("d0/none")).unwrap_err();
    assert_eq!(absent.kind(), std::io::ErrorKind::NotFound);
    let refused = fs::write(view.file(0), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    let original = fs::metadata(view.path("shared/d0/f7")).unwrap();
    let seen = fs::metadata(view.file(7)).unwrap();
    assert_eq!((seen.len(), seen.modified().unwrap()), (original.len(), original.modified().unwrap()));
    view.end();
    assert_eq!(fs::read_dir(view.mount_point()).unwrap().count(), 0);
}

#[test]
fn the_root_shows_all_but_what_would_show_itself() {
    let Some(view) = View::prepare(1, &[]) else { return };
    let mut mount = view.headwater("mount");
    let output = mount.arg(view.mount_point()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let below = |path: std::path::PathBuf| view.mount_point().join(path.strip_prefix("/").unwrap());
    assert_eq!(fs::read(below(view.path("shared/d0/f0"))).unwrap(), content(0));
    for hidden in [view.mount_point(), "/proc".into(), "/sys".into(), "/dev".into()] {
        assert_eq!(fs::read_dir(below(hidden.clone())).unwrap().count(), 0, "{}", hidden.display());
    }
    view.end();
}

#[test]
fn what_is_in_use_is_named_and_can_be_left_behind() {
    let Some(view) = View::mounted(3, &[]) else { return };
    let mut inside = Command::new("sleep").arg("100").current_dir(view.mount_point().join("d0")).spawn().unwrap();
    let mut open = File::open(view.file(1)).unwrap();
    let refused = view.unmount(&[]);
    let printed = text(&refused.stderr);
    assert!(!refused.status.success() && printed.contains(&format!("sleep ({})", inside.id())), "{printed}");
    assert!(printed.contains("--lazy"), "{printed}");
    view.check(0..3);

    assert!(view.unmount(&["--lazy"]).status.success());
    assert!(view.mounts().is_empty());
    eventually("the store is empty", || fs::read_dir(view.path("store")).unwrap().count() == 0);
    let mut read = Vec::new();
    open.read_to_end(&mut read).unwrap();
    assert!(read == content(1));
    let cwd = format!("/proc/{}/cwd", inside.id());
    assert_eq!(fs::read(format!("{cwd}/f2")).unwrap(), content(2), "what was never read before is read as well");
    drop(open);
    inside.kill().unwrap();
    inside.wait().unwrap();
    view.assert_gone();
}

#[test]
fn two_sessions_do_not_share_a_place() {
    let Some(view) = View::mounted(1, &[]) else { return };
    let second = view.mount_command().output().unwrap();
    let printed = text(&second.stderr);
    assert!(
        !second.status.success() && printed.contains("another session") && printed.contains("headwater unmount"),
        "{printed}"
    );
    view.check([0]);
    view.end();
}

#[test]
fn a_directory_without_a_mount_is_refused() {
    let Some(view) = View::prepare(1, &[]) else { return };
    let output = view.unmount(&[]);
    assert!(!output.status.success() && text(&output.stderr).contains("no Headwater mount is at"));
    let nowhere = view.headwater("unmount").arg("/nonexistent/x").output().unwrap();
    assert!(text(&nowhere.stderr).contains("there is no"), "{}", text(&nowhere.stderr));
    let mut nothing = view.headwater("mount");
    let nothing = nothing.arg(view.mount_point()).arg("--root").arg("/nonexistent").output().unwrap();
    assert!(!nothing.status.success());
    view.assert_gone();
}

#[test]
fn an_unmount_by_hand_ends_the_session() {
    let Some(view) = View::mounted(1, &[]) else { return };
    view.check([0]);
    assert!(Command::new("umount").arg(view.mount_point()).status().unwrap().success());
    view.assert_gone();
}

#[test]
fn several_nodes_have_a_mount_each() {
    let Some(view) = View::mounted(150, &["--nodes", "4", "--fan-out", "2"]) else { return };
    for node in 0..4 {
        let file = view.mount_point().join(format!("n{node}/d1/f149"));
        assert_eq!(fs::read(file).unwrap(), content(149));
    }
    view.end();
    assert_eq!(fs::read_dir(view.mount_point()).unwrap().count(), 0, "the directories of the nodes go as well");
}

#[test]
fn in_the_foreground_it_ends_with_a_signal() {
    for signal in [Signal::INT, Signal::KILL] {
        let Some(view) = View::prepare(1, &["--foreground"]) else { return };
        let mut child = view.mount_command().stdin(Stdio::null()).spawn().unwrap();
        eventually("it is mounted", || !view.mounts().is_empty());
        view.check([0]);
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
        view.assert_gone();
    }
}

#[test]
fn a_dead_supervisor_leaves_nothing() {
    let Some(view) = View::mounted(1, &[]) else { return };
    view.check([0]);
    view.kill("supervise");
    view.assert_gone();
}

#[test]
fn the_next_start_removes_unserved_mounts() {
    let Some(view) = View::mounted(1, &[]) else { return };
    // Both at once, before either can react to the other's end.
    let all = view.processes("");
    for pid in &all {
        kill_process(*pid, Signal::STOP).unwrap();
    }
    view.kill("");
    // A parallel test's start may have removed them.
    eventually("the mount is dead", || is_dead(&view.mount_point()) || view.mounts().is_empty());
    let Some(other) = View::prepare(1, &[]) else { return };
    let output = other.headwater("mount").arg(other.mount_point()).arg("--root").arg(other.path("shared")).output();
    assert!(output.unwrap().status.success());
    assert!(view.mounts().is_empty());
    other.end();
    view.mount();
    view.check([0]);
    view.end();
}
