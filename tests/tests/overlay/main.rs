//! Sessions over several nodes: that programs get the right bytes whatever happens to daemons, nodes and
//! links, and that the shared file system is read once.

mod absence;
mod cache;
mod deaths;
mod direct;
mod in_mount;
mod interfaces;
mod once;
mod preload;
mod protection;
mod random_kills;
mod report;
mod sealed;
mod site;
mod striped;
