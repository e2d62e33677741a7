//! The units under a systemd that is the first process of a machine: a copy of this one's root directory, in namespaces
//! of a node.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headwater_tests::harness::{headwater_binary, nodes, skipped, user, wait_until};
use headwater_tests::needs_root;

use crate::site::{EXPORT, KEY, Site};

/// How long a machine may take to boot, or a unit to start.
const BOOT_MAX: Duration = Duration::from_secs(60);
const SYSTEMD: &str = "/lib/systemd/systemd";
/// The status of [`BOOT`] where the root directory can't be the lower part of an overlay.
const NO_OVERLAY: i32 = 77;
const UNITS: [&str; 3] = ["headwater-serve", "headwater-join", "headwater-metrics"];

/// Opens files again and again: several, since the kernel reports a process's opens of one as one.
const STORM: &str = "import os\nwhile True:\n  for n in range(100): os.close(os.open(f'm{n}', os.O_RDONLY))";

const SCRAPE: &str =
    r#"bash -c 'exec 3<>/dev/tcp/localhost/7448; printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; cat <&3'"#;

/// Makes the machine's root from that of its node, and boots to a target without units of the host.
const BOOT: &str = r#"
set -eu
base=/run/machine
mkdir -p $base; mount -t tmpfs tmpfs $base; mkdir $base/upper $base/work $base/root
mount -t overlay overlay -o lowerdir=/,upperdir=$base/upper,workdir=$base/work $base/root || exit 77
cd $base/root
mount -t proc proc proc; mount -t sysfs sysfs sys -o ro; mount -t cgroup2 cgroup2 sys/fs/cgroup
for directory in run tmp dev; do mount -t tmpfs tmpfs $directory; done
for device in null zero full random urandom tty fuse; do
  touch dev/$device; mount --bind /dev/$device dev/$device
done
mkdir dev/shm dev/pts; mount -t tmpfs tmpfs dev/shm
mount -t devpts devpts dev/pts -o newinstance,ptmxmode=0666; ln -s pts/ptmx dev/ptmx
mkdir -p .$EXPORT .$PROJECT etc/headwater; mount --rbind $EXPORT .$EXPORT; mount --rbind $PROJECT .$PROJECT
cp $KEY etc/headwater/key; chmod 600 etc/headwater/key; cp /etc/hosts etc/hosts; hostname > etc/hostname
printf 'HEADWATER_EXPORT=%s\nHEADWATER_READERS=node001\nHEADWATER_NODES=node[002-003]\n' $EXPORT > etc/headwater/site.conf
units=etc/systemd/system
rm -rf $units/*
printf '[Unit]\nRequires=basic.target\nAfter=basic.target\n' > $units/test.target
for unit in systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
    systemd-udev-trigger.service systemd-modules-load.service systemd-sysctl.service systemd-remount-fs.service \
    dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount; do
  ln -s /dev/null $units/$unit
done
printf 'HEADWATER_GUARD_MOUNT=%s\nHEADWATER_GUARD_INTERVAL=2\nHEADWATER_GUARD_OPERATIONS_PER_SECOND=200\n' $EXPORT \
  > etc/headwater/guard.conf
echo HEADWATER_GUARD_COMMAND=$PROJECT/integrations/guard/join >> etc/headwater/guard.conf
for unit in headwater-serve headwater-join headwater-metrics headwater-guard; do
  sed "s:/usr/bin/headwater:$HEADWATER:" $PROJECT/integrations/systemd/$unit.service > $units/$unit.service
done
export container=headwater-test
mkdir old; pivot_root . old; cd /; umount -l /old; rmdir /old
exec /lib/systemd/systemd --system --unit=test.target --show-status=0 --log-target=null
"#;

/// A machine whose first process is systemd. Dropped, it is killed.
struct Machine {
    process: Child,
    /// The first process, as this machine numbers it.
    init: String,
}

impl Machine {
    /// Returns `None`, with the reason on standard output, where no copy of the root directory can be made.
    fn boot(site: &Site, number: usize) -> Option<Machine> {
        let mut command = site.node(number).command("unshare");
        command.args(["--mount", "--pid", "--cgroup", "--fork", "--kill-child", "--propagation", "private"]);
        command.args(["sh", "-c", BOOT]).env("EXPORT", EXPORT).env("KEY", KEY);
        command.env("PROJECT", nodes::project()).env("HEADWATER", headwater_binary());
        let mut process = command.stdin(Stdio::null()).spawn().expect("unshare is installed");
        let (mut init, mut ended) = (None, None);
        wait_until(BOOT_MAX, || {
            init = first_process(process.id());
            ended = process.try_wait().expect("it is a child");
            init.is_some() || ended.is_some()
        });
        if ended.and_then(|status| status.code()) == Some(NO_OVERLAY) {
            skipped("no overlay can be mounted over the root directory");
            return None;
        }
        let machine = Machine { process, init: init.expect("systemd begins") };
        let is_up = || matches!(machine.output("systemctl is-system-running").as_str(), "running" | "degraded");
        assert!(wait_until(BOOT_MAX, is_up), "node {number} does not boot: {}", machine.output("systemctl list-jobs"));
        Some(machine)
    }

    /// Returns a command that runs a shell's commands on the machine.
    fn command(&self, user: &[&str], commands: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.init)).args(["--all", "--"]).args(user);
        command.args(["sh", "-c", commands]).stdin(Stdio::null());
        command
    }

    /// Returns the output of a shell's commands and their errors.
    fn output(&self, commands: &str) -> String {
        let output = self.command(&[], &format!("{{ {commands}; }} 2>&1")).output().expect("nsenter is installed");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Returns a property of a unit.
    fn property(&self, unit: &str, name: &str) -> String {
        self.output(&format!("systemctl show --value --property={name} {unit}"))
    }

    /// Returns what systemd and the journal have of a unit.
    fn explain(&self, unit: &str) -> String {
        self.output(&format!("systemctl status --no-pager {unit}; journalctl --no-pager --unit={unit}"))
    }

    fn start(&self, unit: &str) {
        let printed = self.output(&format!("systemctl start {unit}"));
        assert!(self.is_active(unit) && printed.is_empty(), "{printed}\n{}", self.explain(unit));
    }

    fn is_active(&self, unit: &str) -> bool {
        self.output(&format!("systemctl is-active {unit}")) == "active"
    }

    fn await_active(&self, unit: &str) {
        assert!(wait_until(BOOT_MAX, || self.is_active(unit)), "{}", self.explain(unit));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the systemd among the descendants of a process, each of which has one child.
fn first_process(ancestor: u32) -> Option<String> {
    let mut process = ancestor.to_string();
    loop {
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
        process = children.split_whitespace().next()?.to_owned();
        if fs::read_to_string(format!("/proc/{process}/comm")).ok()?.trim() == "systemd" {
            return Some(process);
        }
    }
}

/// Returns a site, or `None`, with the reason on standard output, where there can't be one with systemd.
fn site(purpose: &str) -> Option<Site> {
    if !Path::new(SYSTEMD).exists() {
        skipped("systemd is not installed");
        return None;
    }
    let site = Site::new(purpose)?;
    site.source.file("file", "content\n", 0o644);
    Some(site)
}

#[test]
fn systemd_starts_and_restarts_the_units() {
    needs_root!();
    let Some(site) = site("booted") else { return };
    site.source.file("later", "more\n", 0o644);
    let Some(reader) = Machine::boot(&site, 1) else { return };
    let Some(node) = Machine::boot(&site, 3) else { return };
    reader.start("headwater-serve");
    node.start("headwater-join");
    node.start("headwater-metrics");
    let see = |file: &str| {
        let output = node.command(&user::ORDINARY, &format!("cat {EXPORT}/{file} 2>&1")).output();
        String::from_utf8_lossy(&output.expect("nsenter is installed").stdout).into_owned()
    };
    assert_eq!(see("file"), "content\n", "{}", node.explain("headwater-join"));
    let status = node.property("headwater-join", "StatusText");
    assert!(status.contains("node001"), "{status}");
    let scraped = node.output(SCRAPE);
    assert!(scraped.contains("headwater_link_up{"), "{scraped}");
    // Killed, it comes back, and the mount stays.
    let before = node.property("headwater-join", "MainPID");
    node.output(&format!("kill -9 {before}"));
    assert_eq!(see("file"), "content\n");
    // Between its end and the next start, systemd has no process.
    let is_new = || !["0", &before].contains(&node.property("headwater-join", "MainPID").as_str());
    let is_back = || is_new() && node.is_active("headwater-join");
    assert!(wait_until(BOOT_MAX, is_back), "{}", node.explain("headwater-join"));
    assert_eq!(see("later"), "more\n");
    // Reloaded and restarted, too.
    for (machine, action) in
        [(&node, "reload headwater-join"), (&node, "restart headwater-join"), (&reader, "restart headwater-serve")]
    {
        assert_eq!(machine.output(&format!("systemctl {action}")), "", "{action}");
        assert_eq!(see("file"), "content\n", "after {action}");
    }
    reader.await_active("headwater-serve");
    node.await_active("headwater-join");
    // The filters of system calls refuse nothing that is needed.
    for (machine, unit) in [(&reader, UNITS[0]), (&node, UNITS[1]), (&node, UNITS[2])] {
        assert_eq!(machine.property(unit, "Result"), "success", "{}", machine.explain(unit));
        let journal = machine.output(&format!("journalctl --no-pager --unit={unit}"));
        assert!(!journal.contains("not permitted") && !journal.contains("SYSCALL"), "{journal}");
    }
    assert_eq!(node.output("systemctl stop headwater-join"), "");
    assert_eq!(see("file"), "content\n", "the mount outlives its unit");
    assert_eq!(node.output(&format!("{} unmount {EXPORT}", headwater_binary().display())), "");
}

#[test]
fn the_guard_shows_the_export_where_a_job_hammers() {
    needs_root!();
    let Some(site) = site("guarded") else { return };
    for number in 0..100 {
        site.source.file(&format!("m{number}"), "", 0o644);
    }
    let Some(reader) = Machine::boot(&site, 1) else { return };
    // The second node has the shared file system itself.
    let Some(node) = Machine::boot(&site, 2) else { return };
    reader.start("headwater-serve");
    node.start("headwater-guard");
    assert!(!node.is_active("headwater-join"));
    let mut storm = node.command(&[], &format!("cd {EXPORT} && exec python3 -c \"$STORM\""));
    let mut storm = storm.env("STORM", STORM).spawn().expect("nsenter is installed");
    node.await_active("headwater-join");
    let shown = node.output(&format!("findmnt --noheadings --output FSTYPE {EXPORT} | tail -n 1"));
    let (ended, read) = (storm.try_wait().expect("a child"), node.output(&format!("cat {EXPORT}/file")));
    storm.kill().expect("it is a child");
    storm.wait().expect("it is a child");
    assert_eq!((ended, &*shown, &*read), (None, "fuse.headwater", "content"), "{}", node.explain("headwater-guard"));
    // Its filter of system calls lets it start the unit, and refuses nothing else that it needs.
    let journal = node.output("journalctl --no-pager --unit=headwater-guard");
    assert!(journal.contains("python3") && !journal.contains("not permitted"), "{journal}");
    assert_eq!(node.output(&format!("{} unmount {EXPORT}", headwater_binary().display())), "");
}
