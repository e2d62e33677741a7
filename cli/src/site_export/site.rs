//! A site: the nodes' ranks and addresses, and the session. It is a pure function of the options, the key file and this
//! node's name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

use anyhow::{Context, Result, ensure};
use headwater_abi::hash;
use headwater_daemon::{Branching, Config, Kinds, LinkProtection, Policy, SessionId, SessionKey, Shape};
use headwater_topology::hosts::Hostlist;

use super::key;
use super::options::{LocalOptions, SiteOptions};
use crate::session::directory::Session;

/// A site.
pub struct Site {
    /// The directory that is served, by its path on the readers.
    pub export: String,
    /// The readers, followed by the other nodes.
    hosts: Hostlist,
    readers: u32,
    port: u16,
    fan_out: Option<u32>,
    key: SessionKey,
    rank: u32,
}

impl Site {
    /// Returns the site of these options on this node.
    ///
    /// # Errors
    /// The key can't be used, this node is not in the lists, or the directory can't be exported.
    pub fn new(options: &SiteOptions, local: &LocalOptions) -> Result<Site> {
        let name = local.name.clone().unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into());
        Site::of_node(options, &name, key::read(&options.key)?)
    }

    fn of_node(options: &SiteOptions, name: &str, key: SessionKey) -> Result<Site> {
        let export =
            options.export.to_str().context("--export: only names in UTF-8 can be served; export another directory")?;
        let clean = headwater_abi::Path::new(export.as_bytes()).filter(|clean| clean.as_bytes() == export.as_bytes());
        let is_plain = clean.is_some_and(|clean| clean.components().all(|name| name != b".."));
        ensure!(is_plain, "--export {export}: write the whole path, without `.`, `..` and a `/` at its end");
        ensure!(export != "/", "--export /: the root can't be served; export a directory below it");
        let readers = options.readers.len();
        let others = options.nodes.iter().filter(|node| options.readers.rank_of(node).is_err());
        let hosts: Vec<String> = options.readers.iter().chain(others).collect();
        ensure!(
            hosts.len() > readers,
            "--nodes {}: these are readers; name further nodes, which run `headwater join`",
            options.nodes
        );
        let hosts = Hostlist::from_names(hosts).context("--readers, --nodes")?;
        let short = name.split('.').next().unwrap_or(name);
        let rank = hosts.rank_of(name).or_else(|_| hosts.rank_of(short));
        let rank = rank.with_context(|| {
            format!(
                "{name} is not in the site's lists: name it in --readers or --nodes, or give its name there with --name"
            )
        })?;
        Ok(Site {
            export: export.to_owned(),
            readers: readers as u32,
            port: options.port,
            fan_out: options.fan_out,
            key,
            rank: rank.0,
            hosts,
        })
    }

    /// Returns whether this node is a reader.
    pub fn is_reader(&self) -> bool {
        self.rank < self.readers
    }

    /// Returns this node's name in the lists.
    pub fn name(&self) -> String {
        self.hosts.name(headwater_topology::Rank(self.rank)).unwrap_or_default()
    }

    /// Returns the numbers of readers and of other nodes.
    pub fn counts(&self) -> (u32, u32) {
        (self.readers, self.ranks() - self.readers)
    }

    /// Returns the number of nodes.
    pub fn ranks(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// Returns the session's identity. It is a digest of the directory's path, so it is the same on all nodes and after
    /// each start.
    pub fn identity(&self) -> SessionId {
        identity(&self.export)
    }

    /// Returns the names and addresses of the readers, without this node.
    pub fn readers(&self) -> Vec<(String, String)> {
        let ranks = (0..self.readers).filter(|&rank| rank != self.rank);
        let names = ranks.filter_map(|rank| self.hosts.name(headwater_topology::Rank(rank)));
        names.map(|name| (name.clone(), format!("{name}:{}", self.port))).collect()
    }

    /// Returns the site's key.
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Returns the configuration of this node's daemon, without inherited descriptors; sets the session's identity and
    /// key.
    pub fn config(&self, session: &mut Session, store_bytes_max: u64, local: &LocalOptions) -> Config {
        session.id = self.identity();
        session.key = self.key.clone();
        Config {
            rank: self.rank,
            ranks: self.ranks(),
            servers: self.readers,
            shape: self.shape(),
            policy: Policy::Pull,
            session: session.id,
            key: session.key.clone(),
            peers: Vec::new(),
            names: self.hosts.iter().map(|name| format!("{name}:{}", self.port)).collect(),
            node_names: self.hosts.to_string(),
            is_site_export: true,
            listener_fd: -1,
            node_dir: session.node(0).path().to_owned(),
            session_lock: session.lock_path(),
            store_bytes_max,
            disk: None,
            scope: vec![(true, self.export.clone())],
            opened: Vec::new(),
            table: None,
            mount: None,
            recover: false,
            lifeline_fd: None,
            whole_file_bytes_max: local.storage.whole_file_max,
            stored_file_bytes_max: None,
            serve: Kinds::all(),
            follows_fork: true,
            cache: local.storage.cache(),
            preload: None,
            record_to: None,
            report_to: None,
            numa_replicas: None,
            numa_replicas_for: Vec::new(),
            rails: None,
            fabric: None,
            link_protection: LinkProtection::Encrypt,
        }
    }

    /// Returns a group of nodes for each reader. Without --fan-out, its nodes are all children of the reader.
    fn shape(&self) -> Shape {
        let (readers, others) = self.counts();
        let fan_out = self.fan_out.unwrap_or_else(|| others.div_ceil(readers));
        Shape::Partitioned { groups: readers, branching: Branching::KAry(fan_out) }
    }

    /// Listens for this node's peers.
    ///
    /// # Errors
    /// The port is taken, or the address is not this node's.
    pub fn listen(&self, address: Option<IpAddr>) -> Result<TcpListener> {
        let listener = match address {
            Some(address) => TcpListener::bind((address, self.port)),
            // With IPv6, this listener accepts IPv4, too.
            None => TcpListener::bind((Ipv6Addr::UNSPECIFIED, self.port))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, self.port))),
        };
        listener.with_context(|| {
            format!(
                "port {} can't be listened on; if another program uses it, name another with --port, on all nodes",
                self.port
            )
        })
    }
}

fn identity(export: &str) -> SessionId {
    let half = |salt: &str| u128::from(hash::bytes(format!("{salt}\0{export}").as_bytes()));
    SessionId(half("standing") << 64 | half("export"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(export: &str, readers: &str, nodes: &str) -> SiteOptions {
        SiteOptions {
            export: export.into(),
            readers: Hostlist::parse(readers).unwrap(),
            nodes: Hostlist::parse(nodes).unwrap(),
            port: 7,
            fan_out: None,
            key: "/nonexistent".into(),
        }
    }

    fn site(options: &SiteOptions, name: &str) -> Result<Site, String> {
        Site::of_node(options, name, SessionKey([1; 32])).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn readers_come_first_and_count_once() {
        let options = options("/udsl", "n[2-3]", "n[1-9]");
        let check = |name: &str, rank: u32| {
            let site = site(&options, name).unwrap();
            assert_eq!((site.rank, site.counts(), site.is_reader()), (rank, (2, 7), rank < 2), "{name}");
            assert_eq!(name.split('.').next(), Some(&*site.name()));
        };
        check("n2", 0);
        check("n3.site.example", 1);
        check("n1", 2);
        check("n9", 8);
        let site = site(&options, "n1").unwrap();
        assert_eq!(site.shape(), Shape::Partitioned { groups: 2, branching: Branching::KAry(4) });
    }

    #[test]
    fn malformed_sites_are_refused() {
        let check = |options: SiteOptions, name: &str, why: &str| {
            let error = site(&options, name).err().unwrap();
            assert!(error.contains(why), "{error}");
        };
        check(options("/udsl", "r1", "n1"), "n2", "not in the site's lists");
        check(options("/udsl", "n[1-2]", "n1"), "n1", "these are readers");
        check(options("/", "r1", "n1"), "n1", "the root can't be served");
        for export in ["udsl", "/udsl/", "/a/../udsl", ""] {
            check(options(export, "r1", "n1"), "n1", "the whole path");
        }
    }

    #[test]
    fn the_identity_follows_from_the_directory() {
        assert_eq!(identity("/udsl"), identity("/udsl"));
        assert_ne!(identity("/udsl"), identity("/udsk"));
    }
}
