//! The overlay's shape: options and output.

mod site;

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use site::{Site, text};

fn topology(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.env_clear().env("HEADWATER_CONFIG", "").arg("topology").args(arguments).envs(variables.iter().copied());
    command.output().unwrap()
}

fn json(arguments: &[&str], variables: &[(&str, &str)]) -> Value {
    let output = topology(&[arguments, &["--json"]].concat(), variables);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)))
}

#[test]
fn what_would_be_used_is_shown() {
    let overview = json(&["--nodes", "node[01-16]", "--trees", "4", "--readers", "node[15-16]"], &[]);
    assert_eq!((&overview["nodes"], &overview["servers"]), (&16.into(), &"node[15-16]".into()));
    let readers: Vec<&str> =
        overview["trees"].as_array().unwrap().iter().filter_map(|t| t["reader"].as_str()).collect();
    assert_eq!(readers, ["node15", "node16", "node15", "node16"]);
    let of = json(&["--nodes", "5", "--fan-out", "2", "--of", "n1"], &[]);
    assert_eq!(
        (&of["trees"][0]["parent"], &of["trees"][0]["children"]),
        (&"n0".into(), &Value::from(vec!["n3", "n4"]))
    );
    let drawn = text(&topology(&["--nodes", "5000"], &[]).stdout);
    assert!(drawn.contains("Tree 0") && drawn.lines().count() < 30, "{drawn}");
    assert!(text(&topology(&["--nodes", "50", "--tree", "1", "--svg"], &[]).stdout).contains("Tree 1 of 8: 50 nodes"));
    let refused = topology(&["--nodes", "a<b>,\"x"], &[]);
    assert!(text(&refused.stderr).contains("can't be in a name"), "{}", text(&refused.stderr));
    let graph = text(&topology(&["--nodes", "9", "--tree", "0", "--dot"], &[]).stdout);
    assert_eq!(graph.lines().filter(|line| line.contains(" -> ")).count(), 8, "{graph}");
}

#[test]
fn the_command_line_wins_over_variables_that_contradict_it() {
    let shape = |arguments: &[&str], variables: &[(&str, &str)]| {
        json(&[&["--nodes", "16"], arguments].concat(), variables)["shape"].take()
    };
    let (trees, fan_out) = (("HEADWATER_TREES", "4"), ("HEADWATER_FAN_OUT", "2"));
    let (groups, readers) = (("HEADWATER_GROUPS", "3"), ("HEADWATER_READERS", "5"));
    let striped = |trees: u32, readers: u32| serde_json::json!({"striped": {"trees": trees, "readers": readers}});
    assert_eq!(shape(&[], &[trees]), striped(4, 2));
    assert_eq!(shape(&["--trees", "6"], &[trees, fan_out, groups, readers]), striped(6, 2));
    assert_eq!(shape(&["--fan-out", "3"], &[trees, readers]), serde_json::json!({"single": {"k_ary": 3}}));
    assert_eq!(shape(&["--readers", "3"], &[fan_out, groups]), striped(8, 3));
    assert_eq!(shape(&["--readers", "n[0-2]"], &[trees]), striped(4, 2));
    assert_eq!(json(&[], &[("SLURM_JOB_NODELIST", "a[1-3]")])["nodes"], 3);
}

#[test]
fn what_is_wrong_is_refused_with_what_to_do() {
    let site = Site::new();
    let file = site.write("work/topology.conf", "SwitchName=s0 Nodes=n[0-1]\nSwitchName=s0 Nodes=n2\n");
    for (arguments, expected) in [
        (&["--nodes", "4", "--trees", "2", "--groups", "2"][..], "Leave one of the two out"),
        (&["--nodes", "4", "--of", "n7"], "n7 is not in the hostlist"),
        (&["--nodes", "4", "--tree", "9"], "0 to 1"),
        (&["--nodes", "4", "--topology", file.to_str().unwrap()], "line 2: switch s0"),
        (&["--nodes", "4", "--fan-out", "none"], "or binomial"),
        (&[], "--nodes"),
    ] {
        let output = topology(arguments, &[]);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = site.run(&["--nodes", "2", "--readers", "n5", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("the nodes are n[0-1]"), "{}", text(&output.stderr));
}

#[test]
fn dedicated_readers_run_no_program() {
    let site = Site::new();
    fs::write(site.path("shared/data"), "of the job\n").unwrap();
    let racks = site.write("work/racks", "n[0,2,4] even\nn[1,3] odd\n");
    let summary = site.path("work/summary.json");
    let script = format!(
        "cat {} && echo $HEADWATER_NODE/$HEADWATER_NODES $HEADWATER_RANK/$HEADWATER_RANKS",
        site.path("shared/data").display()
    );
    let mut command = site.command(&["--nodes", "5", "--ppn", "2", "--readers", "n[0,3]", "--topology"]);
    command.arg(&racks).arg("--summary-json").arg(&summary).args(["--", "sh", "-c", &script]);
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let stdout = text(&output.stdout);
    let mut lines: Vec<&str> = stdout.lines().filter(|line| *line != "of the job").collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1/5 0/6", "1/5 1/6", "2/5 2/6", "2/5 3/6", "4/5 4/6", "4/5 5/6"]);
    let summary: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    assert_eq!((&summary["nodes"], &summary["servers"], &summary["processes"]), (&5.into(), &2.into(), &6.into()));
    assert_eq!(summary["daemons_lost"], 0);
    site.assert_clean();
}

#[test]
fn a_session_within_a_session_has_a_shape_of_its_own() {
    let site = Site::new();
    let headwater = env!("CARGO_BIN_EXE_headwater");
    let script = format!("{headwater} run -- sh -c 'echo $HEADWATER_NODE/$HEADWATER_NODES'");
    let mut command = site.command(&["--nodes", "2", "--", "sh", "-c", &script]);
    let output = command.env("HEADWATER_READERS", "n1").output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "0/1\n".into()), "{}", text(&output.stderr));
}
