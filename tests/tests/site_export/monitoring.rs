//! What operators see: metrics, the service's status, and the findings of `headwater doctor --site`.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use headwater_tests::harness::{has_program, headwater_binary, skipped, user, wait_until};
use headwater_tests::needs_root;

use crate::site::{EXPORT, FOLLOW_MAX, KEY, Site, await_message, shell};

/// The site's variables on each node.
const CONF: &str = "/run/site.conf";

/// The status and the output of `headwater doctor --site` on a node.
fn doctor(site: &Site, number: usize) -> (Option<i32>, String) {
    let conf = format!(
        "# a site\nHEADWATER_EXPORT={EXPORT}\nHEADWATER_READERS=node[001-002]\nHEADWATER_NODES=node[003-005]\n\
         HEADWATER_KEY={KEY}\n"
    );
    fs::write(site.outside(number, CONF), conf).expect("a RAM disk");
    let mut command = site.node(number).command(headwater_binary());
    let output = command.args(["doctor", "--site", CONF]).output().expect("nsenter is installed");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn metrics_name_nodes_roles_and_links() {
    needs_root!();
    let Some(site) = Site::new("metrics") else { return };
    site.source.file("file", "content\n", 0o644);
    let mut services = site.start_all(&[1, 2, 3]);
    site.await_content(3, "file", "content");
    let text = site.headwater(3, &["metrics"]);
    let node = format!(r#"session="{EXPORT}",node="node003",rank="2",role="leaf""#);
    let has = |line: &str| assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    let reader = format!(r#"{node},peer="node001",peer_role="reader",peer_address="node001:7447",relation="parent""#);
    has(&format!("headwater_link_up{{{reader}}} 1.0"));
    has(&format!("headwater_mounted{{{node}}} 1.0"));
    assert!(text.contains(&format!("headwater_received_bytes_total{{{node}}} ")), "{text}");
    if has_program("promtool") {
        let mut promtool = Command::new("promtool");
        let promtool = promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut promtool = promtool.stdout(Stdio::piped()).spawn().expect("promtool is there");
        promtool.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads all");
        let output = promtool.wait_with_output().expect("it ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    } else {
        skipped("promtool is not installed: its package is prometheus");
    }
    let of_reader = site.headwater(1, &["metrics"]);
    let child = r#"role="reader",peer="node003",peer_role="leaf""#;
    assert!(of_reader.contains(child) && of_reader.contains("headwater_shared_fs_files_read_total{"), "{of_reader}");
    services.remove(0).signal(site.node(1), "KILL");
    let down = format!("headwater_link_up{{{reader}}} 0.0");
    let is_seen = wait_until(FOLLOW_MAX, || site.headwater(3, &["metrics"]).lines().any(|line| line == down));
    assert!(is_seen, "a link that is down is a metric: {}", site.headwater(3, &["metrics"]));
    let table = site.headwater(3, &["stats"]);
    let line = table.lines().find(|line| line.contains("node001:7447")).unwrap_or_default();
    assert!(line.contains("down") && line.contains("can't be reached"), "{table}");
}

#[test]
fn metrics_are_served_over_http() {
    needs_root!();
    let Some(site) = Site::new("scraped") else { return };
    let _services = site.start_all(&[1, 3]);
    let mut command = site.node(3).command(headwater_binary());
    let mut server = command.args(["metrics", "--listen", "9100"]).spawn().expect("nsenter is installed");
    let is_served = |page: &str| page.starts_with("HTTP/1.0 200 OK\r\n") && page.contains("headwater_uptime_seconds{");
    let page = await_page(&site, 9100, "/metrics", is_served);
    let result = page.and_then(|_| scraped(&site));
    server.kill().expect("it is this process's");
    server.wait().expect("it has been killed");
    result.unwrap_or_else(|last| panic!("{last}"));
}

/// Awaits a page of a server on node 3 for which `is_it` is true; fails with the last page.
fn await_page(site: &Site, port: u16, path: &str, is_it: impl Fn(&str) -> bool) -> Result<String, String> {
    let get = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3");
    let mut page = String::new();
    let is_there = wait_until(FOLLOW_MAX, || {
        let output = site.node(3).command("bash").args(["-c", &get]).stderr(Stdio::null()).output();
        page = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        is_it(&page)
    });
    if is_there { Ok(page) } else { Err(page) }
}

/// Has a Prometheus on node 3 scrape the server there, and asks it for a link.
fn scraped(site: &Site) -> Result<(), String> {
    if !has_program("prometheus") {
        skipped("prometheus is not installed");
        return Ok(());
    }
    let config = "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: headwater\n  static_configs:\n  \
                  - targets: [localhost:9100]\n";
    fs::write(site.outside(3, "/run/prometheus.yml"), config).expect("a RAM disk");
    let mut command = site.node(3).command("prometheus");
    command.args(["--config.file=/run/prometheus.yml", "--storage.tsdb.path=/run/prometheus", "--log.level=error"]);
    let mut prometheus = command.arg("--web.listen-address=127.0.0.1:9090").spawn().expect("nsenter is installed");
    let link = r#""__name__":"headwater_link_up""#;
    let is_stored =
        |page: &str| page.contains(link) && page.contains(r#""peer":"node001""#) && page.contains(r#""1"]"#);
    let result = await_page(site, 9090, "/api/v1/query?query=headwater_link_up", is_stored);
    prometheus.kill().expect("it is this process's");
    prometheus.wait().expect("it has been killed");
    result.map(drop)
}

#[test]
fn a_node_is_ready_once_a_reader_has_proved_the_key() {
    needs_root!();
    let Some(site) = Site::new("ready") else { return };
    site.source.file("file", "content\n", 0o644);
    let (join, manager) = site.begin(3);
    let first = "STATUS=/run/udsl at /run/udsl, no reader has proved the key: reader node001 (node001:7447): ";
    let is_cause = |message: &str| message.starts_with(first) && message.contains("Connection refused");
    let message = await_message(&manager, is_cause).expect("it reports the cause");
    assert!(message.contains("can't be reached: Connection refused"), "{message}");
    let (status, found) = doctor(&site, 3);
    assert_eq!(status, Some(1), "{found}");
    let line = |start: &str| found.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert!(line("ok       mount").ends_with("no reader is linked"), "{found}");
    assert!(line("missing  links").contains("none to a reader: reader node001 (node001:7447)"), "{found}");
    assert!(line("missing  reader").contains("node001 (node001:7447): its address"), "{found}");
    assert!(found.contains("-> on node001, `headwater doctor --site`"), "{found}");

    let readers = site.start_all(&[1, 2]);
    let ready = await_message(&manager, |message| message.starts_with("READY=1\n")).expect("a reader is there");
    assert!(ready.contains("served by reader node00"), "{ready}");
    assert_eq!(site.as_user(3, &user::ORDINARY, "cat file"), "content");
    for (number, service) in (1..).zip(readers) {
        assert_eq!(service.end(site.node(number), "TERM"), Some(0));
    }
    let gone = await_message(&manager, |message| message.contains("no reader has proved the key")).expect("it reports");
    assert!(gone.contains("node001"), "{gone}");
    let _readers = site.start_all(&[1, 2]);
    await_message(&manager, |message| message.contains("served by reader node00")).expect("it reports the return");
    assert_eq!(join.end(site.node(3), "TERM"), Some(0));
}

#[test]
fn the_doctor_examines_a_site() {
    needs_root!();
    let Some(site) = Site::new("examined") else { return };
    let _services = site.start_all(&[1, 2, 3]);
    for number in [1, 3] {
        let (status, found) = doctor(&site, number);
        assert_eq!(status, Some(0), "{found}");
        assert!(found.contains("prove the key, with release") && !found.contains("->"), "{found}");
    }
    // The examination leaves the links as they are.
    assert_eq!(site.stat(3, "links.up"), 1);
    // A node with another key is refused, and reports it.
    shell(site.node(4), &format!("rm {KEY}; {} key {KEY}", headwater_binary().display()));
    let (_join, manager) = site.begin(4);
    let refused = |message: &str| message.contains("it does not prove the key: its key is another");
    await_message(&manager, refused).expect("it reports the cause");
    let (status, found) = doctor(&site, 4);
    assert!(status == Some(1) && refused(&found) && found.contains("missing  reader"), "{found}");
    let (status, found) = doctor(&site, 5);
    assert!(status == Some(1) && found.contains("-> `systemctl start headwater-join`"), "{found}");
}
