//! The receiver's side: the kernel accepts further subflows as long as its events have a listener, and
//! an address may also go away here.

use super::ports::Ports;
use super::protocol::Message;
use crate::kernel::error::Error;
use crate::kernel::mptcp_pm::commands::Commands;
use crate::kernel::mptcp_pm::events::{Change, Event, Events};
use crate::kernel::sys;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// Every connection that this side accepts after `open`.
pub struct Receiver {
    /// Ports at which they are accepted.
    ports: Ports,
    events: Events,
    commands: Commands,
    /// By token, the addresses where subflows were accepted, with the numbers the kernel gave them.
    live: BTreeMap<u32, BTreeMap<IpAddr, u8>>,
    accepted: u64,
    problems: Vec<String>,
}

impl Receiver {
    /// Starts listening; only connections that arrive at these ports count.
    ///
    /// # Errors
    /// The kernel has no path management.
    pub fn open(ports: Ports) -> Result<Self, Error> {
        Ok(Self {
            ports,
            events: Events::open()?,
            commands: Commands::open()?,
            live: BTreeMap::new(),
            accepted: 0,
            problems: Vec::new(),
        })
    }

    /// Readable when there are events.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Records what happened. (For connections whose events were lost no address is removed later;
    /// they are still accepted.)
    pub fn step(&mut self) -> Result<(), Error> {
        let mut events = Vec::new();
        self.events.take(&mut events)?;
        for event in events {
            match event {
                Event::Created { token, pair, server_side: true }
                    if self.ports.have(pair.local.port()) =>
                {
                    self.accepted += 1;
                    self.live.insert(token, BTreeMap::new());
                }
                Event::Closed { token } => drop(self.live.remove(&token)),
                Event::Subflow(event) if event.change == Change::Established => {
                    if let Some(addresses) = self.live.get_mut(&event.token) {
                        addresses.insert(event.pair.local.ip(), event.local_id);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// An address goes away (REMOVE_ADDR): the sender closes the subflows to it.
    pub fn remove(&mut self, address: IpAddr) -> Result<(), Error> {
        self.each(address, |commands, token, _, id| commands.remove(token, id))
    }

    /// It comes back (ADD_ADDR).
    pub fn add(&mut self, address: IpAddr) -> Result<(), Error> {
        let any_port = |address| SocketAddr::new(address, 0);
        self.each(address, |commands, token, address, id| {
            commands.announce(token, any_port(address), id)
        })
    }

    /// Number of connections that were accepted, and problems.
    pub fn report(&self) -> Message {
        let problems = self.problems.clone();
        Message::Accepted { accepted: self.accepted, problems, cpu_ns: sys::cpu_ns() }
    }

    /// Issues a command for every connection that has accepted a subflow at an address.
    fn each(
        &mut self,
        expected: IpAddr,
        mut command: impl FnMut(&mut Commands, u32, IpAddr, u8) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (&token, addresses) in &self.live {
            for (&address, &id) in addresses {
                if address.to_canonical() != expected {
                    continue;
                }
                match command(&mut self.commands, token, address, id) {
                    Err(Error::Refused(refusal)) => self.problems.push(refusal.to_string()),
                    done => done?,
                }
            }
        }
        Ok(())
    }
}
