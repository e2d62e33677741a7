//! A site export on a cluster: readers that alone have the directory, and nodes whose users see
//! it.

mod access;
mod booted;
mod failures;
mod monitoring;
mod site;
mod units;
mod view;
