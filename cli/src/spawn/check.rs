//! `headwater spawn --check`: checks whether a zygote can be made of a program.

use std::io::stdout;

use super::library::{Mechanism, Stop};
use super::options::SpawnOptions;
use super::work;
use crate::exec::complaint;
use crate::message::{log, show};

/// The separator of the library's reasons.
const SEPARATOR: &str = "; ";
/// The exit status if there can be no zygote.
const NO_ZYGOTE: u8 = 1;
/// State of constructors that no check detects.
const UNNOTICED_AT_MAIN: &str = "not noticed: what constructors have drawn, read or kept: random numbers, the time, the \
                                 process's number and arguments, input, locked memory, children";

/// Makes a zygote as a trial, and reports the outcome. Returns the exit status.
pub fn check(options: &SpawnOptions) -> u8 {
    let program = options.program[0].display();
    let mut context = match work::open_context(options, Mechanism::Zygote) {
        Ok(context) => context,
        Err(e) => {
            let (status, text) = complaint(&options.program[0], e);
            log(text);
            return status;
        }
    };
    let (mechanism, reasons) = context.mechanism();
    let is_zygote = mechanism == Mechanism::Zygote;
    let at_main = options.stop == Stop::Main || options.imports.is_some();
    let place = match (&options.imports, options.stop) {
        (Some(imports), _) => format!("after the import of {imports}"),
        (None, Stop::Main) => String::from("before main"),
        (None, _) => String::from("before its first constructor"),
    };
    let mut lines = vec![match is_zygote {
        true => format!("{program}: processes can come from a zygote that stops {place}"),
        false => format!("{program}: processes can't come from a zygote that stops {place}; each is executed:"),
    }];
    let early = context.early();
    let early = early.iter().flat_map(|early| early.split(SEPARATOR));
    lines.extend(reasons.iter().flat_map(|reasons| reasons.split(SEPARATOR)).map(|reason| format!("  {reason}")));
    lines.extend(early.map(|early| format!("  once for all processes, as it is loaded: {early}")));
    lines.extend((is_zygote && at_main).then(|| format!("  {UNNOTICED_AT_MAIN}")));
    show(stdout(), format_args!("{}\n", lines.join("\n")));
    if is_zygote { 0 } else { NO_ZYGOTE }
}
