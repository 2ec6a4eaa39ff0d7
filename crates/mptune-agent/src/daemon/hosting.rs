//! The addresses of this host, kept up to date by rtnetlink(7).
//!
//! An address is usable towards another host if packets from it leave by its own device, as the routes and
//! rules are now. Where several addresses of a device are of one network only one of them is used for
//! something new: the kernel's order of preference is that of its flags. Nothing is changed here.

use super::status::InterfaceStatus;
use crate::kernel::error::Error;
use crate::kernel::netlink::Netlink;
use crate::kernel::routes::{Link, Routes, own_address};
use crate::paths::hosting::{AddressChange, Hosting};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_sys::protocols::NETLINK_ROUTE;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// RTNLGRP_LINK, _IPV4_IFADDR, _IPV4_ROUTE, _IPV4_RULE, _IPV6_IFADDR, _IPV6_ROUTE and _IPV6_RULE
/// (include/uapi/linux/rtnetlink.h).
const GROUPS: [u32; 7] = [1, 5, 7, 8, 9, 11, 19];
/// RTM_NEWLINK to RTM_DELADDR: what follows concerns routes and rules.
const LINKS_AND_ADDRESSES: std::ops::RangeInclusive<u16> = 16..=21;
/// Answers about routes that are kept.
const REMEMBERED: usize = 4096;

/// An address of a device that is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Own {
    device: u32,
    address: IpAddr,
    prefix: u8,
    /// It may be used for something new.
    preferred: bool,
    /// The other addresses of its network come first.
    secondary: bool,
}

/// Devices and addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Inventory {
    devices: BTreeMap<u32, String>,
    own: BTreeSet<Own>,
    /// The devices that are not used, and why.
    unused: BTreeMap<String, &'static str>,
}

impl Inventory {
    /// Addresses with the names of their devices.
    fn named(&self) -> BTreeSet<(String, IpAddr)> {
        let named = |own: &Own| Some((self.devices.get(&own.device)?.clone(), own.address));
        self.own.iter().filter_map(named).collect()
    }

    /// One address for each network of a device.
    fn for_new(&self) -> Vec<&Own> {
        let mut networks = BTreeSet::new();
        let mut preferred: Vec<_> = self.own.iter().filter(|own| own.preferred).collect();
        preferred.sort_by_key(|own| (own.device, own.rank(), own.address));
        preferred.retain(|own| networks.insert((own.device, own.network())));
        preferred
    }
}

impl Own {
    /// IPv6 marks temporary addresses (RFC 8981) as secondary, and prefers them where there are any; IPv4
    /// marks those that came later.
    fn rank(&self) -> bool {
        self.secondary == self.address.is_ipv4()
    }

    fn network(&self) -> (bool, u128) {
        let (bits, width) = match self.address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let host = width - u32::from(self.prefix).min(width);
        (self.address.is_ipv4(), bits.checked_shr(host).unwrap_or(0))
    }
}

/// The known addresses, and the sockets to ask for the rest.
struct State {
    /// None for all.
    interfaces: Option<Vec<String>>,
    routes: Routes,
    monitor: Netlink,
    inventory: Inventory,
    /// The devices by which packets leave, by their ends; none if there is no route.
    leaving: HashMap<(IpAddr, IpAddr), Option<u32>>,
}

impl State {
    fn leaves_by(&mut self, from: IpAddr, to: IpAddr) -> Option<u32> {
        if self.leaving.len() >= REMEMBERED {
            self.leaving.clear();
        }
        let routes = &mut self.routes;
        // A refusal (no route, an address that is gone) is an answer too.
        let ask = || routes.leaves_by(from, to).unwrap_or(None);
        *self.leaving.entry((from, to)).or_insert_with(ask)
    }

    fn leads(&mut self, own: Own, remote: IpAddr) -> bool {
        reaches(own.address, remote) && self.leaves_by(own.address, remote) == Some(own.device)
    }

    fn usable_towards(&mut self, remote: IpAddr) -> Vec<(String, IpAddr)> {
        let own: Vec<Own> = self.inventory.for_new().into_iter().copied().collect();
        let usable: Vec<Own> = own.into_iter().filter(|&own| self.leads(own, remote)).collect();
        let named =
            |own: Own| Some((self.inventory.devices.get(&own.device)?.clone(), own.address));
        usable.into_iter().filter_map(named).collect()
    }

    fn look(&mut self) -> Result<(), Error> {
        let mut inventory = Inventory::default();
        // One that leads to this host alone leads nowhere.
        let named = |link: &Link| !link.loopback && !link.device.is_empty();
        for (index, link) in self.routes.links()?.into_iter().filter(|(_, link)| named(link)) {
            let given = self.interfaces.as_ref();
            if given.is_some_and(|names_in_policy| !names_in_policy.contains(&link.device)) {
                inventory.unused.insert(link.device, "not among daemon.interfaces");
            } else if link.carrier {
                inventory.devices.insert(index, link.device);
            } else if !link.up {
                inventory.unused.insert(link.device, "it is down");
            } else {
                inventory.unused.insert(link.device, "it has no carrier");
            }
        }
        for name_in_policy in self.interfaces.iter().flatten() {
            if !inventory.devices.values().any(|name| name == name_in_policy) {
                inventory.unused.entry(name_in_policy.clone()).or_insert("there is no such device");
            }
        }
        self.routes.each_address(|address| {
            if inventory.devices.contains_key(&address.header.index) {
                inventory.own.extend(usable_address(&address));
            }
        })?;
        self.inventory = inventory;
        Ok(())
    }

    /// Reads the inventory again; returns what came and went.
    fn reread(&mut self) -> Result<Vec<AddressChange>, Error> {
        let before = self.inventory.named();
        self.look()?;
        let now = self.inventory.named();
        let named = |(device, address): &(String, IpAddr)| (device.clone(), *address);
        let went = before.difference(&now).map(named);
        let came = now.difference(&before).map(named);
        let went = went.map(|(device, address)| AddressChange::Went { device, address });
        let came = came.map(|(device, address)| AddressChange::Came { device, address });
        Ok(went.chain(came).collect())
    }
}

/// The addresses of the current network namespace.
pub struct Addresses {
    descriptor: OwnedFd,
    state: RefCell<State>,
}

impl Addresses {
    /// Of these interfaces, or of all that are up with a global address.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn open(interfaces: Option<Vec<String>>) -> Result<Self, Error> {
        let monitor = Netlink::open(NETLINK_ROUTE)?;
        GROUPS.into_iter().try_for_each(|group| monitor.join(group))?;
        let descriptor = monitor.as_fd().try_clone_to_owned();
        let descriptor = descriptor.map_err(|error| Error::io("netlink", &error))?;
        let (routes, inventory) = (Routes::open()?, Inventory::default());
        let mut state = State { interfaces, routes, monitor, inventory, leaving: HashMap::new() };
        state.look()?;
        Ok(Self { descriptor, state: RefCell::new(state) })
    }

    /// Readable when something may be different.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Changes since the last call.
    ///
    /// # Errors
    /// The kernel no longer answers.
    pub fn step(&self) -> Result<Vec<AddressChange>, Error> {
        let mut state = self.state.borrow_mut();
        let (mut links, mut routes) = (false, false);
        let lost = state.monitor.take(|message| {
            match LINKS_AND_ADDRESSES.contains(&message.message_type()) {
                true => links = true,
                false => routes = true,
            }
            Ok(())
        })?;
        let mut changes = Vec::new();
        if lost || links || routes {
            state.leaving.clear();
        }
        if lost || links {
            changes = state.reread()?;
        }
        // Not all changes of devices are those of an address, but they may be those of a route.
        changes.extend((lost || routes).then_some(AddressChange::Routes));
        Ok(changes)
    }

    /// Devices, by name and number, and those of their addresses that are usable towards one of these
    /// hosts.
    pub fn usable_towards_any(&self, remotes: &[IpAddr]) -> Vec<(String, u32, IpAddr)> {
        let mut state = self.state.borrow_mut();
        let own: Vec<Own> = state.inventory.for_new().into_iter().copied().collect();
        let leads = |state: &mut State, own: Own| remotes.iter().any(|&to| state.leads(own, to));
        let usable: Vec<Own> = own.into_iter().filter(|&own| leads(&mut state, own)).collect();
        let devices = &state.inventory.devices;
        let named = |own: Own| Some((devices.get(&own.device)?.clone(), own.device, own.address));
        usable.into_iter().filter_map(named).collect()
    }
}

impl Addresses {
    /// The devices of this machine but the loopback, with those of their addresses that others can reach: which
    /// are used towards one of these hosts, and why the others are not.
    pub fn overview(&self, remotes: &[IpAddr]) -> Vec<InterfaceStatus> {
        let misled: BTreeMap<IpAddr, String> =
            self.misled(remotes).into_iter().map(|(_, address, other)| (address, other)).collect();
        let usable: BTreeSet<IpAddr> =
            self.usable_towards_any(remotes).into_iter().map(|(_, _, address)| address).collect();
        let state = self.state.borrow();
        let inventory = &state.inventory;
        let for_new: BTreeSet<IpAddr> =
            inventory.for_new().into_iter().map(|own| own.address).collect();
        let mut interfaces = Vec::new();
        for (number, device) in &inventory.devices {
            let entry = |address, why: String| {
                let (device, used) = (device.clone(), why.is_empty());
                InterfaceStatus { device, address, used, why }
            };
            let own = || inventory.own.iter().filter(|own| own.device == *number);
            interfaces.extend(own().map(|own| {
                let why = match misled.get(&own.address) {
                    _ if usable.contains(&own.address) => String::new(),
                    _ if !own.preferred => "it is deprecated".to_owned(),
                    _ if !for_new.contains(&own.address) => {
                        "another address of its network is used".to_owned()
                    }
                    Some(other) => format!("packets from it leave by {other}"),
                    None => "no route leaves from it by this device".to_owned(),
                };
                entry(Some(own.address), why)
            }));
            if own().next().is_none() {
                interfaces.push(entry(None, "it has no address that others can reach".to_owned()));
            }
        }
        let unused = inventory.unused.iter().map(|(device, why)| InterfaceStatus {
            device: device.clone(),
            address: None,
            used: false,
            why: (*why).to_owned(),
        });
        interfaces.extend(unused);
        interfaces
    }

    /// Addresses from which packets leave by another device than their own, whichever of these hosts they go
    /// to: device, address, and that other device.
    pub fn misled(&self, remotes: &[IpAddr]) -> Vec<(String, IpAddr, String)> {
        let mut state = self.state.borrow_mut();
        let own: Vec<Own> = state.inventory.for_new().into_iter().copied().collect();
        let mut misled = Vec::new();
        for own in own {
            let to = remotes.iter().filter(|&&to| reaches(own.address, to));
            let ways: BTreeSet<u32> =
                to.filter_map(|&to| state.leaves_by(own.address, to)).collect();
            let name = |device: &u32| state.inventory.devices.get(device).cloned();
            let other = ways.iter().find_map(name);
            if let (false, Some(device), Some(other)) =
                (ways.contains(&own.device), name(&own.device), other)
            {
                misled.push((device, own.address, other));
            }
        }
        misled
    }
}

impl Hosting for Addresses {
    fn usable_towards(&self, remote: IpAddr) -> Vec<(String, IpAddr)> {
        self.state.borrow_mut().usable_towards(remote)
    }

    fn leads(&self, local: IpAddr, remote: IpAddr) -> bool {
        let mut state = self.state.borrow_mut();
        let own = state.inventory.own.iter().find(|own| own.address == local).copied();
        own.is_some_and(|own| state.leads(own, remote))
    }

    fn device_of(&self, address: IpAddr) -> Option<String> {
        let state = self.state.borrow();
        let own = state.inventory.own.iter().find(|own| own.address == address)?;
        state.inventory.devices.get(&own.device).cloned()
    }
}

/// Answers may come back: of one family, and no unique local address (RFC 4193) talks to a global one.
fn reaches(local: IpAddr, remote: IpAddr) -> bool {
    match (local, remote) {
        (IpAddr::V4(_), IpAddr::V4(_)) => true,
        (IpAddr::V6(local), IpAddr::V6(remote)) => {
            !local.is_unique_local() || remote.is_unique_local()
        }
        _ => false,
    }
}

/// An address that others can reach.
fn usable_address(message: &AddressMessage) -> Option<Own> {
    if !matches!(message.header.scope, AddressScope::Universe | AddressScope::Site) {
        return None;
    }
    let given = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Flags(flags) => Some(*flags),
        _ => None,
    });
    let few = AddressFlags::from_bits_retain(message.header.flags.bits().into());
    let flags = given.unwrap_or(few);
    if flags.intersects(AddressFlags::Tentative | AddressFlags::Dadfailed)
        && !flags.contains(AddressFlags::Optimistic)
    {
        return None;
    }
    Some(Own {
        device: message.header.index,
        address: own_address(message)?,
        prefix: message.header.prefix_len,
        preferred: !flags.contains(AddressFlags::Deprecated),
        secondary: flags.contains(AddressFlags::Secondary),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(device: u32, address: &str, prefix: u8) -> Own {
        let address = address.parse().unwrap();
        Own { device, address, prefix, preferred: true, secondary: false }
    }

    fn chosen(own: &[Own]) -> Vec<String> {
        let inventory = Inventory { own: own.iter().copied().collect(), ..Inventory::default() };
        inventory.for_new().iter().map(|own| own.address.to_string()).collect()
    }

    #[test]
    fn one_address_of_each_network_of_a_device_is_for_what_is_new() {
        let second = Own { secondary: true, ..own(2, "10.0.1.1", 24) };
        let others = [own(2, "10.0.1.2", 24), own(2, "10.0.9.2", 24), own(3, "10.0.1.3", 24)];
        assert_eq!(
            chosen(&[&[second][..], &others].concat()),
            ["10.0.1.2", "10.0.9.2", "10.0.1.3"]
        );
        assert_eq!(chosen(&[own(2, "10.0.0.1", 32), own(2, "10.0.0.2", 32)]).len(), 2);
        assert_eq!(chosen(&[own(2, "2001:db8::1", 0), own(2, "fd00::1", 0)]).len(), 1);
    }

    #[test]
    fn temporary_addresses_come_first_and_deprecated_ones_are_not_for_what_is_new() {
        let stable = own(2, "2001:db8::1", 64);
        let temporary = Own { secondary: true, ..own(2, "2001:db8::2", 64) };
        assert_eq!(chosen(&[stable, temporary]), ["2001:db8::2"]);
        let old = Own { preferred: false, ..temporary };
        assert_eq!(chosen(&[stable, old]), ["2001:db8::1"]);
    }

    #[test]
    fn families_do_not_mix_and_local_networks_do_not_reach_the_others() {
        for (local, remote, expected) in [
            ("10.0.0.1", "192.0.2.1", true),
            ("10.0.0.1", "2001:db8::1", false),
            ("fd00::1", "2001:db8::1", false),
            ("fd00::1", "fd65::1", true),
            ("2001:db8::2", "2001:db8::1", true),
        ] {
            assert_eq!(reaches(local.parse().unwrap(), remote.parse().unwrap()), expected);
        }
    }

    #[test]
    fn an_address_is_read_with_its_flags_and_others_than_global_ones_are_left_out() {
        let mut message = AddressMessage::default();
        message.header.index = 3;
        message.header.prefix_len = 24;
        message.attributes.push(AddressAttribute::Local("10.0.1.2".parse().unwrap()));
        assert_eq!(usable_address(&message), Some(own(3, "10.0.1.2", 24)));
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Deprecated));
        let deprecated = Own { preferred: false, ..own(3, "10.0.1.2", 24) };
        assert_eq!(usable_address(&message), Some(deprecated));
        message.attributes.pop();
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Tentative));
        assert_eq!(usable_address(&message), None);
        message.attributes.pop();
        message.header.scope = AddressScope::Link;
        assert_eq!(usable_address(&message), None);
    }

    #[test]
    fn nothing_is_usable_towards_this_host_itself() {
        let addresses = Addresses::open(None).unwrap();
        let here = [127, 0, 0, 1].into();
        assert_eq!(addresses.usable_towards(here), []);
        assert_eq!(addresses.step().unwrap(), []);
        assert!(!addresses.leads(here, here));
    }
}
