//! The endpoints and the limits that are kept: what is made of them, and how it is taken back.
//!
//! Everything is in the journal before it is made. Which addresses are used, and which connection gives the roles, is
//! decided elsewhere (`endpoints`).

use super::needed::needed;
use crate::daemon::endpoint_journal::{EndpointJournal, Made, Place, Raised};
use crate::kernel::diag::Diag;
use crate::kernel::error::{Error, Refusal};
use crate::kernel::mptcp_pm::endpoints::{BACKUP, Endpoint, IMPLICIT, Limits, PathManager};
use crate::kernel::mptcp_pm::most;
use crate::kernel::pair::Pair;
use crate::undo::steps;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

/// Most subflows to ask for, of which the kernel may refuse more than `most::EVERY`; and the announced addresses
/// to accept.
const MOST: u32 = 64;
const ANNOUNCED: u32 = 2;

/// What the kernel's path manager is asked for; in tests another is in its place.
pub trait Kernel {
    /// All endpoints.
    ///
    /// # Errors
    /// Of this and all the others: it is refused, or the kernel does not answer.
    fn endpoints(&mut self) -> Result<Vec<Endpoint>, Error>;
    /// Adds an endpoint with the number it has.
    fn add(&mut self, endpoint: &Endpoint) -> Result<(), Error>;
    /// Removes an endpoint.
    fn delete(&mut self, endpoint: &Endpoint) -> Result<(), Error>;
    /// Makes an endpoint standby or not.
    fn set_flags(&mut self, endpoint: &Endpoint) -> Result<(), Error>;
    /// The limits.
    fn limits(&mut self) -> Result<Limits, Error>;
    /// Sets the limits.
    fn set_limits(&mut self, limits: Limits) -> Result<(), Error>;
}

impl Kernel for PathManager {
    fn endpoints(&mut self) -> Result<Vec<Endpoint>, Error> {
        self.endpoints()
    }

    fn add(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        self.add(endpoint)
    }

    fn delete(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        self.delete(endpoint)
    }

    fn set_flags(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        self.set_flags(endpoint)
    }

    fn limits(&mut self) -> Result<Limits, Error> {
        self.limits()
    }

    fn set_limits(&mut self, limits: Limits) -> Result<(), Error> {
        self.set_limits(limits)
    }
}

/// What was done about the endpoints that a daemon has left.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Names of what was taken back.
    pub taken_back: Vec<String>,
    /// Names of what stays for connections that have no other subflow.
    pub needed: Vec<String>,
}

/// Takes back what a daemon of this network namespace has left that was killed, unless it is to stay. The caller
/// sees to it that no daemon is at work.
///
/// # Errors
/// The journal cannot be read, or the kernel refuses.
pub fn take_back_left(place: Place) -> Result<Left, Error> {
    if !EndpointJournal::is_at(&place) {
        return Ok(Left::default());
    }
    let mut pm = PathManager::open()?;
    let journal = EndpointJournal::open(place, &pm.endpoints()?)?;
    let needed = needed(&mut Diag::open()?, &journal.addresses())?;
    left(pm, journal, &needed)
}

fn left(
    pm: impl Kernel,
    journal: EndpointJournal,
    needed: &BTreeSet<IpAddr>,
) -> Result<Left, Error> {
    // An empty one may be that of another network namespace.
    if journal.keep || journal.is_empty() {
        return Ok(Left::default());
    }
    let taken_back = Kept::new(pm, journal).take_back(needed)?;
    Ok(Left { taken_back, needed: needed.iter().map(endpoint_name).collect() })
}

fn endpoint_name(address: &IpAddr) -> String {
    format!("endpoint {address}")
}

/// The endpoints that are kept.
pub struct Kept<K = PathManager> {
    pm: K,
    /// What of them was made here.
    pub journal: EndpointJournal,
    /// The subflows that the connection in charge asks for.
    wanted: HashMap<Pair, bool>,
}

impl<K: Kernel> Kept<K> {
    /// What the journal has, of this path manager.
    pub fn new(pm: K, journal: EndpointJournal) -> Self {
        Self { pm, journal, wanted: HashMap::new() }
    }

    /// Makes an endpoint for an address unless another program has one there. One that the kernel has made by itself
    /// for living subflows becomes it, with its number: the kernel replaces it by one without, and removing it would
    /// end these subflows (mptcp_pm_nl_append_new_local_addr, net/mptcp/pm_kernel.c).
    pub fn make(&mut self, address: IpAddr, device: u32) -> Result<(), Error> {
        let there = self.pm.endpoints()?;
        let own = there.iter().find(|one| one.ip == address && one.port == 0);
        let implicit = own.filter(|one| one.flags & IMPLICIT != 0);
        if own.is_some() && implicit.is_none() {
            return Ok(());
        }
        let free = || self.free_number(&there);
        let Some(id) = implicit.map(|one| one.id).or_else(free) else { return Ok(()) };
        let made = Made { address, id, device };
        self.journal.endpoints.push(made.clone());
        self.journal.write()?;
        let number = if implicit.is_some() { 0 } else { id };
        let done = self.pm.add(&Endpoint { id: number, ..made.endpoint(false) });
        steps::changed();
        if done.is_err() {
            self.journal.endpoints.retain(|one| *one != made);
            self.journal.write()?;
        }
        done
    }

    fn free_number(&self, there: &[Endpoint]) -> Option<u8> {
        let mut taken: BTreeSet<u8> = there.iter().map(|one| one.id).collect();
        taken.extend(self.journal.endpoints.iter().map(|one| one.id));
        (1..=u8::MAX).find(|id| !taken.contains(id))
    }

    /// Removes one of those made here.
    pub fn remove(&mut self, made: &Made) -> Result<(), Error> {
        if made.find(&self.pm.endpoints()?).is_some() {
            let done = self.pm.delete(&made.endpoint(false));
            steps::changed();
            let refused = matches!(done, Err(Error::Refused(_)));
            // Somebody else may have been faster.
            if !refused || made.find(&self.pm.endpoints()?).is_some() {
                done?;
            }
        }
        self.journal.endpoints.retain(|one| one != made);
        self.journal.write()
    }

    /// Raises the limits if they are lower than what the endpoints need.
    pub fn raise_limits(&mut self) -> Result<(), Error> {
        let present = self.pm.limits()?;
        let own = self.journal.endpoints.len() as u32;
        let announced = present.add_addr_accepted.max(ANNOUNCED);
        let wanted = |most: u32| Limits {
            subflows: present.subflows.max((own * (1 + announced)).min(most)),
            add_addr_accepted: announced,
        };
        if own == 0 {
            return Ok(());
        }
        match self.set_limits(present, wanted(MOST)) {
            Err(Error::Refused(_)) => self.set_limits(present, wanted(most::EVERY)),
            done => done,
        }
    }

    /// Sets limits that were others, which the journal has first. Refused, they and the journal are as before.
    fn set_limits(&mut self, present: Limits, wanted: Limits) -> Result<(), Error> {
        if wanted == present {
            return Ok(());
        }
        let earlier = self.journal.limits.clone();
        self.journal.limits = Some(Raised::from(earlier.as_ref(), present, wanted));
        self.journal.write()?;
        let done = self.pm.set_limits(wanted);
        steps::changed();
        // After any other failure they may be those.
        if matches!(done, Err(Error::Refused(_))) {
            self.journal.limits = earlier;
            self.journal.write()?;
        }
        done
    }

    /// Removes what was made here, except at the addresses that are needed, and puts the limits back unless somebody has
    /// changed them since; the names of what was taken back. What stays is in the journal for the next one.
    pub fn take_back(&mut self, needed: &BTreeSet<IpAddr>) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for made in self.journal.endpoints.clone() {
            if needed.contains(&made.address) {
                continue;
            }
            self.remove(&made)?;
            names.push(endpoint_name(&made.address));
        }
        if let Some(raised) = &self.journal.limits
            && raised.set.contains(&self.pm.limits()?)
        {
            self.pm.set_limits(raised.before)?;
            steps::changed();
            names.push("limits".to_owned());
        }
        self.journal.limits = None;
        if self.journal.is_empty() {
            self.journal.remove()?
        } else {
            self.journal.write()?
        }
        Ok(names)
    }

    /// Another connection is in charge.
    pub fn forget_wanted(&mut self) {
        self.wanted.clear();
    }

    /// These are all subflows that the connection in charge still has: the others ask for nothing any more.
    pub fn established(&mut self, pairs: &HashSet<Pair>) {
        self.wanted.retain(|pair, _| pairs.contains(pair));
    }

    /// A subflow of the connection that speaks should be standby or not: the endpoint at its address is
    /// standby if all its subflows should be.
    pub fn set(&mut self, pair: &Pair, backup: bool) -> Result<(), Error> {
        self.wanted.insert(*pair, backup);
        let address = pair.addresses().0;
        let there = self.pm.endpoints()?;
        let mut made = self.journal.endpoints.iter().filter(|one| one.address == address);
        let Some((made, found)) = made.find_map(|one| Some((one, one.find(&there)?))) else {
            return Err(refused(address, "the endpoint there is somebody else's"));
        };
        let here = |other: &Pair| other.addresses().0 == address;
        let all = self.wanted.iter().filter(|(one, _)| here(one)).all(|(_, backup)| *backup);
        if all != backup {
            return Err(refused(address, "another subflow at this endpoint is to carry data"));
        }
        if found.flags & BACKUP != 0 && backup || found.flags & BACKUP == 0 && !backup {
            return Ok(());
        }
        self.pm.set_flags(&made.endpoint(backup))
    }
}

fn refused(address: IpAddr, why: &str) -> Error {
    let request = format!("priority of endpoint {address}");
    Error::Refused(Refusal::new(&request, libc::EBUSY, Some(why.to_owned())))
}

#[cfg(test)]
mod tests;
