//! The daemon's changes to endpoints and limits, in a file that outlives it.
//!
//! The file names its boot and its network namespace; one of another is of no use and is replaced.

use crate::kernel::error::Error;
use crate::kernel::mptcp_pm::endpoints::{BACKUP, Endpoint, FULLMESH, Limits, SUBFLOW};
use crate::undo::directory::{Directory, PRIVATE};
use crate::undo::places::{self, Namespace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::IpAddr;

/// Place of a journal: a directory that is the daemon's alone, and a name in it.
pub type Place = (Directory, &'static str);

/// An endpoint that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// Its address.
    pub address: IpAddr,
    /// Its number.
    pub id: u8,
    /// The number of its device.
    pub device: u32,
}

impl Made {
    /// As the kernel knows it, standby or not.
    pub fn endpoint(&self, backup: bool) -> Endpoint {
        let flags = SUBFLOW | FULLMESH | if backup { BACKUP } else { 0 };
        let device = i32::try_from(self.device).unwrap_or(0);
        Endpoint { id: self.id, ip: self.address, port: 0, flags, device }
    }

    /// Itself among the present endpoints; another program may have removed or replaced it.
    pub fn find<'a>(&self, there: &'a [Endpoint]) -> Option<&'a Endpoint> {
        let own = self.endpoint(false);
        let same = |endpoint: &&Endpoint| {
            let flags = endpoint.flags & !BACKUP;
            Endpoint { flags, ..**endpoint } == own
        };
        there.iter().find(same)
    }
}

/// Limits that were changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// What they were before, which somebody else made them.
    pub before: Limits,
    /// Every pair that they may be because of us: the one that is being set, and the one before it.
    pub set: Vec<Limits>,
}

impl Raised {
    /// For a change from `present` to `wanted` that is about to be made, after an earlier one of ours if any.
    pub fn from(earlier: Option<&Self>, present: Limits, wanted: Limits) -> Self {
        match earlier {
            Some(own) if own.set.contains(&present) => {
                Self { before: own.before, set: vec![present, wanted] }
            }
            // Somebody else has set them since: that is what they will be put back to.
            _ => Self { before: present, set: vec![wanted] },
        }
    }
}

/// The lines of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    boot: String,
    namespace: Option<Namespace>,
    endpoints: Vec<Made>,
    /// Subflows and announced addresses: before, and what they may have been set to.
    limits: Option<Vec<(u32, u32)>>,
    /// All of it is to stay.
    #[serde(default)]
    keep: bool,
}

/// The file and its content.
pub struct EndpointJournal {
    place: Place,
    boot: String,
    namespace: Option<Namespace>,
    /// The endpoints that were made.
    pub endpoints: Vec<Made>,
    /// The limits, if they were changed.
    pub limits: Option<Raised>,
    /// All of it stays when the daemon has ended, however it ends.
    pub keep: bool,
}

impl EndpointJournal {
    /// True if there is a file, of whichever network namespace.
    pub fn is_at((directory, name): &Place) -> bool {
        !matches!(directory.read(name), Err(error) if error.kind() == ErrorKind::NotFound)
    }

    /// The changes of an earlier daemon that are still in place.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(place: Place, there: &[Endpoint]) -> Result<Self, Error> {
        let failed = |error: io::Error| failed(&place, &error);
        let boot = places::boot().map_err(failed)?;
        let namespace = places::namespace().ok();
        let bytes = match place.0.read(place.1) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            read => read.map_err(failed)?,
        };
        // One that was cut off is of no use either.
        let contents: Contents = serde_json::from_slice(&bytes).unwrap_or_default();
        let of_here = contents.boot == boot && contents.namespace == namespace;
        let contents = if of_here { contents } else { Contents::default() };
        let mut endpoints = contents.endpoints;
        endpoints.retain(|made| made.find(there).is_some());
        let limits = contents.limits.as_deref().and_then(raised);
        Ok(Self { place, boot, namespace, endpoints, limits, keep: contents.keep })
    }

    /// From now on all of it is to stay, or not.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&mut self, keep: bool) -> Result<(), Error> {
        let is_same = self.keep == keep;
        self.keep = keep;
        // An empty one is written with what comes first.
        if is_same || self.is_empty() { Ok(()) } else { self.write() }
    }

    /// Addresses of what was made.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        self.endpoints.iter().map(|made| made.address).collect()
    }

    /// True if there is nothing to take back.
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty() && self.limits.is_none()
    }

    /// Writes it, so that it is on the disk when this returns.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self) -> Result<(), Error> {
        let pair = |limits: Limits| (limits.subflows, limits.add_addr_accepted);
        let contents = Contents {
            boot: self.boot.clone(),
            namespace: self.namespace,
            endpoints: self.endpoints.clone(),
            limits: self.limits.as_ref().map(|raised| {
                [raised.before].iter().chain(&raised.set).copied().map(pair).collect()
            }),
            keep: self.keep,
        };
        let bytes = serde_json::to_vec(&contents).expect("structures always serialise");
        let (directory, name) = &self.place;
        let written = directory.replace(&format!("{name}.new"), name, &bytes, PRIVATE);
        written.map_err(|error| failed(&self.place, &error))
    }

    /// Removes it; nothing is left to put back.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&mut self) -> Result<(), Error> {
        self.limits = None;
        let (directory, name) = &self.place;
        directory.remove(name).map_err(|error| failed(&self.place, &error))?;
        // Others may have something there.
        directory.leave();
        Ok(())
    }
}

/// Limits as the file has them: those before come first.
fn raised(pairs: &[(u32, u32)]) -> Option<Raised> {
    let limits = |&(subflows, add_addr_accepted)| Limits { subflows, add_addr_accepted };
    let (before, set) = pairs.split_first()?;
    Some(Raised { before: limits(before), set: set.iter().map(limits).collect() })
}

fn failed((directory, name): &Place, error: &io::Error) -> Error {
    Error::Failed(format!("{}: {error}", directory.path().join(name).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_endpoints_are_recovered_as_far_as_they_still_exist() {
        let directory = std::env::temp_dir().join(format!("mptune-noted-{}", std::process::id()));
        let place = || (Directory::make(&directory).unwrap(), "endpoints.json");
        let made = |id| Made { address: [10, 0, id, 2].into(), id, device: 3 };
        let limits = |subflows| Limits { subflows, add_addr_accepted: 2 };
        let mut journal = EndpointJournal::open(place(), &[]).unwrap();
        journal.endpoints = vec![made(1), made(2)];
        journal.limits = Some(Raised { before: limits(2), set: vec![limits(6), limits(8)] });
        journal.write().unwrap();
        let there = [made(2).endpoint(true)];
        let mut journal = EndpointJournal::open(place(), &there).unwrap();
        let raised = Raised { before: limits(2), set: vec![limits(6), limits(8)] };
        assert_eq!(
            (journal.endpoints.clone(), journal.limits.clone()),
            (vec![made(2)], Some(raised))
        );
        journal.boot = "another".to_owned();
        journal.write().unwrap();
        let other = EndpointJournal::open(place(), &there).unwrap();
        assert_eq!((other.endpoints, other.limits), (vec![], None));
        journal.remove().unwrap();
        journal.remove().unwrap();
        assert!(!directory.exists());
    }

    #[test]
    fn limits_of_version_0_2_are_read() {
        let text = r#"{"boot":"b","namespace":null,"endpoints":[],"limits":[[2,0],[6,2]]}"#;
        let contents: Contents = serde_json::from_str(text).unwrap();
        let limits = |subflows, add_addr_accepted| Limits { subflows, add_addr_accepted };
        let expected = Raised { before: limits(2, 0), set: vec![limits(6, 2)] };
        assert_eq!(contents.limits.as_deref().and_then(raised), Some(expected));
    }

    #[test]
    fn an_endpoint_is_known_by_all_but_its_role() {
        let made = Made { address: [10, 0, 1, 2].into(), id: 3, device: 7 };
        let own = made.endpoint(true);
        assert_eq!(made.find(&[own]), Some(&own));
        for other in [
            Endpoint { id: 4, ..own },
            Endpoint { flags: SUBFLOW, ..own },
            Endpoint { device: 8, ..own },
            Endpoint { port: 5000, ..own },
        ] {
            assert_eq!(made.find(&[other]), None);
        }
    }
}
