//! The generic netlink family `mptcp_pm` of a network namespace: its number, its event group, and what all its
//! commands have in common (include/uapi/linux/mptcp_pm.h).

use crate::kernel::error::Error;
use crate::kernel::netlink::Netlink;
use mptcp_pm::MptcpPathManagerAddressAttr as Part;
use netlink_packet_core::{Emitable, NetlinkMessage, NetlinkPayload, Nla};
use netlink_packet_generic::ctrl::nlas::{GenlCtrlAttrs, McastGrpAttrs};
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlMessage};
use netlink_sys::protocols::NETLINK_GENERIC;
use std::fmt::Debug;
use std::net::IpAddr;

/// The family's name.
pub const NAME: &str = "mptcp_pm";
/// Its version.
const VERSION: u8 = 1;
/// The name of the group that receives events.
const EVENTS: &str = "mptcp_pm_events";

/// The attribute of a command that holds a local address (enum mptcp_pm_attrs).
pub const ATTR_ADDR: u16 = 1;

/// A command with its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command<A> {
    number: u8,
    attributes: Vec<A>,
}

impl<A: Debug> Command<A> {
    /// The command with this number (enum mptcp_pm_cmds).
    pub fn new(number: u8, attributes: Vec<A>) -> Self {
        Self { number, attributes }
    }

    /// The message that carries it, to the family with this number.
    pub fn message(self, family: u16) -> GenlMessage<Self> {
        let mut message = GenlMessage::from_payload(self);
        message.set_resolved_family_id(family);
        message
    }
}

impl<A> GenlFamily for Command<A> {
    fn family_name() -> &'static str {
        NAME
    }

    fn command(&self) -> u8 {
        self.number
    }

    fn version(&self) -> u8 {
        VERSION
    }
}

impl<A: Nla> Emitable for Command<A> {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}

/// The attributes of an address without a port.
pub fn address(ip: IpAddr) -> Vec<Part> {
    let (family, ip) = match ip {
        IpAddr::V4(ip) => (libc::AF_INET, Part::Addr4(ip)),
        IpAddr::V6(ip) => (libc::AF_INET6, Part::Addr6(ip)),
    };
    vec![Part::Family(family as u16), ip]
}

/// The family as the kernel describes it.
pub struct Family {
    /// The type of its messages.
    pub number: u16,
    /// The multicast group of its events; none before Linux 5.12.
    pub events: Option<u32>,
}

/// A socket in the current namespace, and the family there.
///
/// # Errors
/// The kernel has no MPTCP.
pub fn open() -> Result<(Netlink, Family), Error> {
    let mut netlink = Netlink::open(NETLINK_GENERIC)?;
    let question = GenlMessage::from_payload(GenlCtrl {
        cmd: GenlCtrlCmd::GetFamily,
        nlas: vec![GenlCtrlAttrs::FamilyName(NAME.to_owned())],
    });
    let mut family = Family { number: 0, events: None };
    let asked = netlink.ask(&format!("netlink family {NAME}"), question, |answer| {
        let answer =
            NetlinkMessage::<GenlMessage<GenlCtrl>>::deserialize(answer.clone().into_inner())?;
        if let NetlinkPayload::InnerMessage(answer) = answer.payload {
            family = read(&answer.payload.nlas);
        }
        Ok(())
    });
    match asked {
        Ok(()) => Ok((netlink, family)),
        Err(Error::Refused(refusal)) if refusal.number() == libc::ENOENT => Err(Error::Refused(
            refusal.meaning("this kernel has no such netlink family: it needs CONFIG_MPTCP"),
        )),
        Err(error) => Err(error),
    }
}

fn read(attributes: &[GenlCtrlAttrs]) -> Family {
    let mut family = Family { number: 0, events: None };
    for attribute in attributes {
        match attribute {
            GenlCtrlAttrs::FamilyId(number) => family.number = *number,
            GenlCtrlAttrs::McastGroups(groups) => {
                family.events = groups.iter().find_map(|group| events_group(group));
            }
            _ => {}
        }
    }
    family
}

/// The number of a multicast group if it is the event group.
fn events_group(group: &[McastGrpAttrs]) -> Option<u32> {
    let is_events = group
        .iter()
        .any(|attribute| matches!(attribute, McastGrpAttrs::Name(name) if name == EVENTS));
    let number = |attribute: &McastGrpAttrs| match attribute {
        McastGrpAttrs::Id(number) => Some(*number),
        McastGrpAttrs::Name(_) => None,
    };
    group.iter().find_map(number).filter(|_| is_events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_the_events_is_looked_up_by_its_name() {
        let group =
            |name: &str, id| vec![McastGrpAttrs::Name(name.to_owned()), McastGrpAttrs::Id(id)];
        let groups = vec![group("mptcp_pm_cmds", 7), group("mptcp_pm_events", 8)];
        let family = read(&[GenlCtrlAttrs::FamilyId(28), GenlCtrlAttrs::McastGroups(groups)]);
        assert_eq!((family.number, family.events), (28, Some(8)));
        assert_eq!(read(&[GenlCtrlAttrs::FamilyId(28)]).events, None);
    }
}
