//! The plugin of Flux's job shell, under a Lua interpreter without Flux: `shell`, `task` and `plugin` are made as
//! flux-shell-initrc(5) documents them. The tests check that the plugin follows that page, and that a real session
//! serves programs with its variables.

mod site;

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};

use site::{Site, text};

/// Loads the plugin (argument 1) with the option (argument 2), for two tasks of one node, and prints for each the
/// variables that it sets. A handler's first result that is false would fail the job.
const FLUX: &str = r#"
local handlers, current = {}, nil
shell = {
  options = { headwater = arg[2] },
  info = { jobid = 1, rank = 0, size = 1, ntasks = 2 },
  getenv = os.getenv,
  log = function(message) io.stderr:write("shell: ", message, "\n") end,
}
plugin = { register = function(plugin)
  assert(plugin.name and #plugin.handlers > 0)
  for _, handler in ipairs(plugin.handlers) do handlers[handler.topic] = handler.fn end
end }
task = setmetatable({}, { __index = function(_, key)
  return assert(current, "attempt to access task outside of task context")[key]
end })
dofile(arg[1])
for rank = 0, 1 do
  local own = { LD_AUDIT = "/tool.so" }
  current = {
    info = { localid = rank, rank = rank, state = "init" },
    getenv = function(name) return own[name] end,
    setenv = function(name, value) own[name] = value; print(rank, name, value) end,
  }
  if handlers["task.init"] then
    local results = table.pack(handlers["task.init"]("task.init"))
    assert(results.n == 0 or results[1], "the job fails")
  end
end
"#;

fn headwater(site: &Site, arguments: &[&str]) -> Command {
    let run = site.plain_command(&[] as &[&str]);
    let mut command = Command::new(run.get_program());
    command.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?)))).args(arguments);
    command
}

/// Runs the plugin with this option, which never fails.
fn flux(site: &Site, option: &str) -> Output {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integrations/flux/headwater.lua");
    let mut lua = Command::new("lua5.4");
    lua.arg(site.write("work/flux.lua", FLUX)).arg(plugin).arg(option);
    lua.envs(headwater(site, &[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = lua.env("HEADWATER_BINARY", env!("CARGO_BIN_EXE_headwater")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn tasks_take_part_in_a_session() {
    if Command::new("lua5.4").arg("-v").output().is_err() {
        return println!("skipped: lua5.4 is not installed");
    }
    let site = Site::new();
    let (jobs, shared) = (site.path("work/jobs").display().to_string(), site.path("shared").display().to_string());
    let start = ["start", "--job-dir", &jobs, "--shared", &shared, "--via", "audit"];
    let started = headwater(&site, &start).output().unwrap();
    assert!(started.status.success(), "{started:?}");
    let session = text(&started.stdout).trim().to_owned();
    let output = flux(&site, &format!("{jobs}/{session}"));
    let printed = text(&output.stdout);
    for rank in ["0", "1"] {
        let variables: HashMap<&str, &str> =
            printed.lines().filter_map(|line| line.strip_prefix(rank)?.trim_start().split_once('\t')).collect();
        assert_eq!(variables["HEADWATER_SESSION"], session, "{printed}");
        assert_eq!((variables["HEADWATER_RANK"], variables["HEADWATER_RANKS"]), (rank, "2"), "{printed}");
        assert_eq!((variables["HEADWATER_NODE"], variables["HEADWATER_NODES"]), ("0", "1"), "{printed}");
        let (library, others) = variables["LD_AUDIT"].split_once(':').expect("the user's library stands behind");
        assert!(Path::new(library).is_file() && others == "/tool.so", "{printed}");
        assert!(Path::new(variables["HEADWATER_TABLE"]).exists(), "{printed}");
    }
    let stopped = headwater(&site, &["stop", "--job-dir", &jobs, &session]).output().unwrap();
    assert!(text(&stopped.stdout).contains("2 processes on 1 node"), "{stopped:?}");
    site.assert_clean();
    // After a session's end, and without a valid file, the tasks run without the plugin's variables.
    for (option, complaint) in [(&*format!("{jobs}/{session}"), "--job-dir"), ("yes", "-o headwater=FILE")] {
        let output = flux(&site, option);
        assert_eq!(text(&output.stdout), "");
        assert!(text(&output.stderr).contains(complaint), "{output:?}");
    }
}
