//! `counting-fs SOURCE CONTROL TTL_MS KEEP_PAGES MOUNT…`; see [`headwater_tests::counting_fs`].

use std::process::ExitCode;

use headwater_tests::counting_fs::{Options, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, control, ttl_ms, retain_pages, mounts @ ..] = &arguments[..] else {
        eprintln!("usage: counting-fs SOURCE CONTROL TTL_MS KEEP_PAGES MOUNT...");
        return ExitCode::from(2);
    };
    let (Ok(ttl_ms), Ok(retain_pages)) = (ttl_ms.parse(), retain_pages.parse()) else {
        eprintln!("counting-fs: TTL_MS is a number of milliseconds, KEEP_PAGES is true or false");
        return ExitCode::from(2);
    };
    let mounts = mounts.iter().map(Into::into).collect();
    match run(&Options { source: source.into(), control: control.into(), ttl_ms, retain_pages, mounts }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("counting-fs: {error}");
            ExitCode::FAILURE
        }
    }
}
