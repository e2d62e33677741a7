//! Text files of a site. Those that list which nodes share a switch: the resulting order has each rank once, and unknown
//! nodes at its end. Those with defaults of options: what is read of them is a default that the options accept.

#![no_main]

use clap::builder::FalseyValueParser;
use clap::{Arg, ArgAction, Command};
use headwater_topology::hosts::{Hostlist, Switches};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "defaults are only parsed here")]
#[path = "../../cli/src/config"]
mod config {
    pub mod file;
    pub mod keys;
    pub mod usage_log;
}
#[allow(dead_code, reason = "no command line is parsed here")]
#[path = "../../cli/src/options"]
mod options {
    pub mod complaint;
}
/// Names are proposed elsewhere.
mod help {
    pub mod variables {
        pub fn nearest<'a>(_: &str, mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
            names.next()
        }
    }
}

use config::file::parse;
use config::keys::Keys;

/// Returns a definition with an option of each kind.
fn definition() -> Command {
    let switch = Arg::new("push").long("push").env("HEADWATER_PUSH").action(ArgAction::SetTrue);
    let number =
        Arg::new("trees").long("trees").env("HEADWATER_TREES").value_parser(clap::value_parser!(u32).range(1..=64));
    let list = Arg::new("shared").long("shared").env("HEADWATER_SHARED").action(ArgAction::Append).value_delimiter(':');
    let refused = Arg::new("nodes").long("nodes").env("HEADWATER_NODES");
    Command::new("headwater").subcommand(Command::new("run").args([
        switch.value_parser(FalseyValueParser::new()),
        number,
        list,
        refused,
    ]))
}

fn check_defaults(text: &str) {
    let keys = Keys::of(&definition());
    let parsed = parse(text.as_bytes(), &keys, &|name| (name.len() < 3).then(|| name.repeat(2)));
    let lines = text.split('\n').count();
    assert!(parsed.problems.iter().all(|problem| problem.line.is_none_or(|line| (1..=lines).contains(&line))));
    assert!(parsed.problems.iter().all(|problem| !problem.text.contains(char::is_control)));
    // The site's own key is no option's.
    let is_option = |name: &str| name != config::usage_log::KEY;
    let settings = parsed.settings.iter().filter(|setting| !setting.values.is_empty() && is_option(&setting.name));
    let settings: Vec<_> = settings.collect();
    let filled = definition().mut_subcommand("run", |run| {
        run.mut_args(|option| match settings.iter().find(|setting| Some(&*setting.name) == option.get_long()) {
            Some(setting) => option.default_values(setting.defaults()),
            None => option,
        })
    });
    let matches = filled.try_get_matches_from(["headwater", "run"]).expect("each value was checked");
    let run = matches.subcommand_matches("run").expect("it was named");
    assert!(settings.iter().all(|setting| (1..=lines).contains(&setting.line) && run.contains_id(&setting.name)));
}

fuzz_target!(|text: &str| {
    check_defaults(text);
    let hosts = Hostlist::parse("n[1-4],a,n2.b,b,a,10.0.0.1").expect("it is a hostlist");
    for read in [Switches::parse_topology_conf, Switches::parse_racks] {
        let Ok(switches) = read(text) else { continue };
        let order = switches.order(&hosts);
        let mut ranks: Vec<usize> = order.ranks.iter().map(|rank| rank.0 as usize).collect();
        for (position, rank) in order.ranks.iter().enumerate() {
            let name = hosts.name(*rank).expect("the order has the list's ranks");
            assert_eq!(switches.leaf(&name).is_none(), position >= hosts.len() - order.unknown);
        }
        ranks.sort_unstable();
        assert!(ranks.into_iter().eq(0..hosts.len()));
    }
});
