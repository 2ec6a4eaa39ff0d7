//! Assignment of a path manager: a policy of the core with its options, and its paths, by the
//! addresses that the kernel knows.

use super::forecasts;
use crate::kernel::pair::Pair;
use mptune_core::error::SpecError;
use mptune_core::network::Family;
use mptune_core::pathmanager::{self as core, OptionMap, PathEnds, PathId, TransferSize};
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;
use thiserror::Error;

/// An assignment, or the name of a path in it, that is wrong.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The core refuses the policy or an option of it.
    #[error("path manager: {}: {}", .0.key, .0.expected)]
    Policy(SpecError),
    /// No path has this label.
    #[error("path: expected one of {known}, found {found:?}")]
    Label {
        /// All labels.
        known: String,
        /// The label in the order.
        found: String,
    },
}

/// `transfer_bytes` of a sender that always has more.
const SATURATED: u64 = u64::MAX;

/// A path as both sites know it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelPath {
    /// As in the topology.
    pub label: String,
    /// Number of the sender's interface.
    pub local: usize,
    /// Number of the receiver's.
    pub remote: usize,
    /// The sender's and the receiver's address, at most once per address family.
    pub pairs: Vec<(IpAddr, IpAddr)>,
    /// Data over it are paid for.
    #[serde(default)]
    pub metered: bool,
}

impl KernelPath {
    /// Its ends for the core; its family is that of its first addresses.
    pub fn ends(&self) -> PathEnds {
        let six = self.pairs.first().is_some_and(|(local, _)| local.is_ipv6());
        let family = if six { Family::Ipv6 } else { Family::Ipv4 };
        PathEnds { local: self.local, remote: self.remote, family, metered: self.metered }
    }
}

/// A policy, its options and its paths, as received.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Specification {
    /// Name of the policy, from the core's list.
    pm: String,
    /// Its options, with paths by their numbers.
    #[serde(default)]
    pm_options: OptionMap,
    /// All paths, in the order of the topology.
    paths: Vec<KernelPath>,
    /// Payload bytes a connection will have; the largest number if it never ends, none if unknown.
    #[serde(default)]
    transfer_bytes: Option<u64>,
    /// binder may use its gateways.
    #[serde(default)]
    lsrr_honoured: bool,
    /// Congestion control of the connections; none for the host's.
    #[serde(default)]
    cc: Option<String>,
}

/// The same, checked, for any number of connections.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The name of the policy; empty if it has none.
    pub name: Arc<str>,
    /// For the core.
    pub policy: core::Assignment,
    /// All paths that are known beforehand.
    pub paths: Arc<[KernelPath]>,
    /// Other addresses of this host and of the peer become paths too; none if there are only those.
    pub terms: Option<Arc<Terms>>,
}

/// Terms of using addresses that are not known beforehand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// The devices whose addresses it uses; none for all.
    pub interfaces: Option<Vec<String>>,
    /// The devices over which data are paid for.
    pub metered: Vec<String>,
    /// This host's other addresses are announced to peers that connect (ADD_ADDR).
    pub announce: bool,
    /// Subflows are also opened on connections that the peer opened.
    pub open_accepted: bool,
}

impl Specification {
    /// Checks it.
    ///
    /// # Errors
    /// [`Error::Policy`].
    pub fn checked(self) -> Result<Assignment, Error> {
        let ends: Vec<_> = self.paths.iter().map(KernelPath::ends).collect();
        let size = match self.transfer_bytes {
            Some(SATURATED) => TransferSize::Unlimited,
            Some(bytes) => TransferSize::Known(bytes),
            None => TransferSize::Unknown,
        };
        let mut policy =
            core::Assignment::new(&self.pm, &self.pm_options, ends, size, self.lsrr_honoured)
                .map_err(Error::Policy)?;
        policy.foresee(|| forecasts::of(self.cc.as_deref()));
        Ok(Assignment { name: "".into(), policy, paths: self.paths.into(), terms: None })
    }
}

impl Assignment {
    /// A policy whose paths are the addresses of this host and of the peer.
    ///
    /// # Errors
    /// The option that is wrong.
    pub fn of_host(
        name: &str,
        pm: &str,
        options: &OptionMap,
        terms: Terms,
    ) -> Result<Self, SpecError> {
        let mut policy = core::Assignment::new(pm, options, [], TransferSize::Unknown, false)?;
        policy.foresee(|| forecasts::of(None));
        Ok(Self { name: name.into(), policy, paths: [].into(), terms: Some(terms.into()) })
    }

    /// The same policy under a name; other addresses become paths too.
    pub fn with_terms(self, name: &str, terms: Terms) -> Self {
        Self { name: name.into(), terms: Some(terms.into()), ..self }
    }

    /// The address of a peer is among the paths that are known beforehand.
    pub fn knows(&self, remote: IpAddr) -> bool {
        self.paths.iter().flat_map(|path| &path.pairs).any(|&(_, known)| known == remote)
    }

    /// The path between the ends of a subflow, if it is one of these paths.
    pub fn path_of(&self, pair: &Pair) -> Option<PathId> {
        let addresses = pair.addresses();
        self.paths.iter().position(|path| path.pairs.contains(&addresses))
    }

    /// The paths to an address of the receiver.
    pub fn paths_to(&self, address: IpAddr) -> Vec<PathId> {
        let leads =
            |&path: &PathId| self.paths[path].pairs.iter().any(|&(_, remote)| remote == address);
        (0..self.paths.len()).filter(leads).collect()
    }

    /// The path with a label.
    ///
    /// # Errors
    /// [`Error::Label`].
    pub fn path_named(&self, label: &str) -> Result<PathId, Error> {
        let index = self.paths.iter().position(|path| path.label == label);
        index.ok_or_else(|| {
            let known: Vec<_> = self.paths.iter().map(|path| path.label.as_str()).collect();
            Error::Label { known: known.join(", "), found: label.to_owned() }
        })
    }

    /// Local and remote address of a path for a connection whose first subflow has these ends: in its family, or in
    /// the other one if Linux allows that, which is in sockets of IPv6 (net/mptcp/pm.c, `mptcp_pm_addr_families_match`).
    pub fn addresses_for(&self, path: PathId, initial: &Pair) -> Option<(IpAddr, IpAddr)> {
        let other = || self.paths[path].pairs.first().copied();
        let own = self.addresses(path, initial.addresses().0);
        own.or_else(|| other().filter(|_| initial.local.is_ipv6()))
    }

    /// Local and remote address of a path in an address's family.
    pub fn addresses(&self, path: PathId, family: IpAddr) -> Option<(IpAddr, IpAddr)> {
        let same = |(local, _): &&(IpAddr, IpAddr)| local.is_ipv4() == family.is_ipv4();
        self.paths[path].pairs.iter().find(same).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(pm: &str, options: serde_json::Value) -> Result<Assignment, Error> {
        let path = |label: &str, local: usize| {
            json!({"label": label, "local": local, "remote": 0,
                   "pairs": [[format!("10.64.{local}.1"), "10.65.0.1"]]})
        };
        let paths = [path("A-X", 0), path("B-X", 1)];
        let specification = json!({"pm": pm, "paths": paths, "pm_options": options});
        serde_json::from_value::<Specification>(specification).unwrap().checked()
    }

    #[test]
    fn errors_name_what_is_wrong_with_an_assignment() {
        for (pm, options, words) in [
            ("fullmash", json!({}), "path manager: pm: expected one of default"),
            (
                "pcdc",
                json!({"active": [2]}),
                "path manager: active: expected a path below 2, found 2",
            ),
            ("ndiffports", json!({"ndiffports": 0}), "path manager: ndiffports: expected 1 to 64"),
        ] {
            let reason = checked(pm, options).unwrap_err().to_string();
            assert!(reason.starts_with(words), "{reason}");
        }
    }

    #[test]
    fn paths_are_known_by_their_addresses_and_labels() {
        let assignment = checked("fullmesh", json!({})).unwrap();
        let pair = |local: &str| Pair {
            local: local.parse().unwrap(),
            remote: "10.65.0.1:5001".parse().unwrap(),
        };
        assert_eq!(assignment.path_of(&pair("10.64.1.1:7")), Some(1));
        assert_eq!(assignment.path_of(&pair("10.64.2.1:7")), None);
        assert_eq!(assignment.path_named("B-X"), Ok(1));
        let reason = assignment.path_named("C-X").unwrap_err().to_string();
        assert_eq!(reason, "path: expected one of A-X, B-X, found \"C-X\"");
        assert_eq!(assignment.addresses(0, "::1".parse().unwrap()), None);
        let six = Pair {
            local: "[fd64::1]:7".parse().unwrap(),
            remote: "[fd65::1]:5001".parse().unwrap(),
        };
        assert_eq!(assignment.addresses_for(0, &six), Some(pair("10.64.0.1:7").addresses()));
    }
}
