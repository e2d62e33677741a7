//! Links over libfabric, by its tcp provider: the same programs and reads as over TCP; and TCP, or the source, where
//! libfabric fails.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use headwater_tests::harness::services::{Ssh, succeeds};
use headwater_tests::harness::{Output, headwater_binary, skipped, wait_until};
use serde_json::Value;

use crate::site::{NODES, Site, in_any_order};

/// Runs until all nodes have registered in time.
const ATTEMPTS: usize = 4;

/// How long programs may take to be in the middle, and to end.
const TIME_MAX: Duration = Duration::from_secs(40);
const LIBFABRIC: [&str; 4] = ["--transport", "libfabric:tcp", "--marker", "@"];

/// Imports half of the modules, waits for a file, and imports the others, and one more.
const WAITS: &str = "
import importlib, os, sys, time
values = [importlib.import_module(f'pkg.m{n}').value for n in range(10)]
os.write(1, b'begun\\n')
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
values += [importlib.import_module(f'pkg.m{n}').value for n in range(10, 20)]
os.write(1, f'{sum(values)}\\n'.encode())
";

struct FabricSite {
    site: Site,
    ssh: Ssh,
}

impl FabricSite {
    fn new() -> Option<FabricSite> {
        let carrier = headwater_binary().with_file_name("../lib/headwater-fabric");
        if !carrier.exists() {
            skipped("headwater-fabric is not built: libfabric's headers are missing (package libfabric-dev)");
            return None;
        }
        let site = Site::new()?;
        let ssh = Ssh::start(&site.cluster, &site.directory("ssh")).map_err(skipped).ok()?;
        Some(FabricSite { site, ssh })
    }

    /// A script that starts a program on all nodes, on the last one with this variable.
    fn launcher(&self, variable: &str) -> PathBuf {
        let script = self.site.directory("ssh").join("launch");
        let text = format!(
            "#!/bin/bash\nargs=$(printf ' %q' PYTHONPATH=\"$PYTHONPATH\" PYTHONDONTWRITEBYTECODE=1 \"$@\")\n\
             for node in node001 node002 node003; do ssh {0} root@$node \"env $args\" & done\n\
             ssh {0} root@node004 \"env {variable} $args\" & wait\n",
            self.ssh.options
        );
        fs::write(&script, text).expect("an own directory");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("an own file");
        script
    }

    fn served(&self, options: &[&str], variable: &str) -> (Output, Value) {
        let launcher = self.launcher(variable).display().to_string();
        let args: Vec<String> = [launcher, "@".into()].into_iter().chain(self.site.program()).collect();
        let run = || {
            self.site.forget();
            self.site.served(options, &args)
        };
        // The number of nodes is unknown to Headwater, so the last is left out if a busy machine starts it late.
        let is_whole = |(_, summary): &(Output, Value)| summary["nodes"] == NODES;
        let first = (1..ATTEMPTS).map(|_| run()).find(is_whole);
        let (output, summary) = first.unwrap_or_else(run);
        assert_eq!(self.site.repeated(), [""; 0], "{summary}");
        assert_eq!(summary["clients"]["fallbacks"], 0, "{summary}");
        assert_eq!(summary["nodes"], NODES, "{summary}");
        (output, summary)
    }

    fn expected(&self) -> Output {
        let launcher = self.launcher("A=1").display().to_string();
        let args: Vec<String> = [launcher].into_iter().chain(self.site.program()).collect();
        let expected = self.site.plain(&args);
        assert_eq!(expected.status, 0, "{expected:?}");
        in_any_order(expected)
    }
}

/// Bytes between nodes: all of them, and those over libfabric.
fn bytes(summary: &Value) -> (u64, u64) {
    let overlay = &summary["overlay"];
    let number = |name: &str| overlay[name].as_u64().unwrap_or_else(|| panic!("no {name}: {summary}"));
    (number("bytes"), number("fabric_bytes"))
}

#[test]
fn links_go_over_libfabric() {
    let Some(fabric) = FabricSite::new() else { return };
    let expected = fabric.expected();
    let (output, over_tcp) = fabric.served(&["--marker", "@"], "A=1");
    assert_eq!(in_any_order(output), expected);
    assert_eq!((bytes(&over_tcp).1, &over_tcp["tcp_instead"]), (0, &Value::Null));
    let (output, summary) = fabric.served(&LIBFABRIC, "A=1");
    assert_eq!(in_any_order(output), expected, "{summary}");
    let (all, carried) = bytes(&summary);
    // Greetings are sent over TCP, and are encrypted again.
    assert!(carried > 0 && all - carried < 16 << 10, "{carried} of {all}: {summary}");
    assert_eq!(summary["tcp_instead"], Value::Null);
    assert_eq!(summary["shared_fs"]["files_read"], over_tcp["shared_fs"]["files_read"], "{summary}");
    assert_eq!(summary["shared_fs"]["bytes_read"], over_tcp["shared_fs"]["bytes_read"], "{summary}");
}

#[test]
fn a_node_without_the_provider_uses_tcp() {
    let Some(fabric) = FabricSite::new() else { return };
    let expected = fabric.expected();
    // The site's own variable forbids the provider there.
    let (mut output, summary) = fabric.served(&LIBFABRIC, "FI_PROVIDER=^tcp");
    let (warnings, others): (Vec<&str>, Vec<&str>) =
        output.stderr.lines().partition(|line| line.starts_with("headwater: warning: "));
    let warning = "1 of 4 nodes used TCP in place of libfabric: libfabric opens no endpoint of provider tcp";
    assert!(warnings.len() == 1 && warnings[0].contains(warning), "{warnings:?}");
    output.stderr = others.join("\n");
    assert_eq!(in_any_order(output), expected, "{summary}");
    let (all, carried) = bytes(&summary);
    assert!(0 < carried && carried < all, "{carried} of {all}: {summary}");
    assert_eq!(summary["tcp_instead"][1], 1, "{summary}");
}

#[test]
fn killed_carriers_change_no_output() {
    let Some(fabric) = FabricSite::new() else { return };
    let site = &fabric.site;
    let go = site.directory("jobs").with_file_name("go");
    let expected = (0..20).map(|n: u64| n.pow(3)).sum::<u64>().to_string();
    for victims in [&[2][..], &[1, 2, 3, 4]] {
        let _ = fs::remove_file(&go);
        let launcher = fabric.launcher("A=1").display().to_string();
        let program = ["@", "python3", "-c", WAITS, &go.display().to_string()].map(String::from);
        let running = site.begin(&LIBFABRIC, &[launcher].into_iter().chain(program).collect::<Vec<_>>());
        let begun = || running.stdout().matches("begun").count() == NODES;
        assert!(wait_until(TIME_MAX, begun), "{}", running.stdout());
        for &number in victims {
            // It is called by the first letters of its name.
            assert!(succeeds(site.cluster.on(number), "pkill -KILL -x headwater-fabri"), "node {number} has none");
        }
        fs::write(&go, "").expect("an own directory");
        let output = running.finish_within(TIME_MAX);
        let results = output.stdout.lines().filter(|line| **line == expected).count();
        assert_eq!((output.status, results), (0, NODES), "{victims:?}: {output:?}");
        site.assert_clean();
    }
}

#[test]
fn without_a_carrier_it_is_tcp() {
    let Some(fabric) = FabricSite::new() else { return };
    let library = headwater_binary().with_file_name("../lib/libheadwater-audit.so");
    let directory = fabric.site.directory("jobs").with_file_name("without");
    fs::create_dir_all(&directory).expect("an own directory");
    fs::copy(library, directory.join("libheadwater-audit.so")).expect("it is installed");
    let args = [headwater_binary().display().to_string(), "run".into()].into_iter();
    let args = args.chain(LIBFABRIC[..2].iter().map(ToString::to_string));
    let args = args.chain(["--shared".into(), fabric.site.shared().display().to_string()]);
    let args: Vec<String> = args.chain(["--nodes".into(), "2".into()]).chain(fabric.site.program()).collect();
    let output = fabric.site.on_first(&args).env("HEADWATER_LIBDIR", &directory).run();
    let plain = fabric.site.plain(&fabric.site.program());
    assert_eq!((output.status, output.stdout), (0, plain.stdout.repeat(2)));
    let is_reported = output.stderr.contains("headwater-fabric is missing") && output.stderr.contains("Nodes use TCP");
    assert!(is_reported && output.stderr.lines().count() == 1, "{}", output.stderr);
    fabric.site.assert_clean();
}
