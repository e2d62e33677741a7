//! `headwater metrics`: prints metrics, or serves them.

use std::io::stdout;
use std::net::TcpListener;

use anyhow::{Context, Result};

use crate::message::{log, show};
use crate::metrics::options::MetricsOptions;
use crate::metrics::{collect, encode, http};
use crate::site_export::notify;

/// Prints the metrics once, or serves them without end. Returns the exit status.
///
/// # Errors
/// The address can't be listened at.
pub fn metrics(options: &MetricsOptions) -> Result<u8> {
    let store = options.store.clone();
    let page = move || encode(collect(store.as_deref()));
    let Some(address) = options.listen else {
        show(stdout(), page());
        return Ok(0);
    };
    let listener = TcpListener::bind(address).with_context(|| {
        format!("{address} can't be listened at; name a free port and an address of this machine with --listen")
    })?;
    let address = listener.local_addr().unwrap_or(address);
    let is_at = format!("metrics are at http://{address}{}", http::PATH);
    log(&is_at);
    notify::ready(&is_at);
    http::serve(&listener, page)
}
