//! The subflows of all connections, and the endpoints without which living connections have no subflow left.
//!
//! Linux ends all subflows at an address with its endpoint, the first one of a connection too (net/mptcp/pm_kernel.c,
//! `mptcp_nl_remove_subflow_and_signal_addr`). Nothing is removed here, and nothing kept.

use crate::kernel::diag::{Counting, Diag};
use crate::kernel::error::Error;
use crate::kernel::info::TcpInfo;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Why an endpoint is left, in words.
pub const STAYS: &str = "stays for connections that have no other subflow";

/// Every subflow of this network namespace: the token of its connection, its address here, and the payload bytes that it has
/// carried, both ways.
///
/// # Errors
/// The kernel does not answer.
pub fn each_subflow(diag: &mut Diag, mut each: impl FnMut(u32, IpAddr, u64)) -> Result<(), Error> {
    diag.census(Counting::Tcp, |socket| {
        if let Some(mptcp) = socket.mptcp.filter(|mptcp| mptcp.token != 0) {
            let info = TcpInfo::parse(socket.info);
            let carried = info.bytes_acked.saturating_add(info.bytes_received);
            each(mptcp.token, socket.pair.addresses().0, carried);
        }
    })
}

/// The addresses, of these, that have to keep their endpoints: for each connection of this network namespace with
/// subflows at these alone, the one over which it has carried most.
///
/// # Errors
/// The kernel does not answer.
pub fn needed(diag: &mut Diag, made: &BTreeSet<IpAddr>) -> Result<BTreeSet<IpAddr>, Error> {
    let mut connections: BTreeMap<u32, Vec<(IpAddr, u64)>> = BTreeMap::new();
    each_subflow(diag, |token, address, carried| {
        connections.entry(token).or_default().push((address, carried));
    })?;
    Ok(of_connections(connections.values().map(Vec::as_slice), made))
}

fn of_connections<'a>(
    connections: impl Iterator<Item = &'a [(IpAddr, u64)]>,
    made: &BTreeSet<IpAddr>,
) -> BTreeSet<IpAddr> {
    let mut needed = BTreeSet::new();
    for subflows in connections {
        let stays = |address: &IpAddr| !made.contains(address) || needed.contains(address);
        if subflows.iter().any(|(address, _)| stays(address)) {
            continue;
        }
        needed.extend(subflows.iter().max_by_key(|(_, bytes)| *bytes).map(|(address, _)| *address));
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, number, 1])
    }

    fn needed_of(connections: &[&[(u8, u64)]]) -> Vec<IpAddr> {
        let connections: Vec<Vec<_>> = connections
            .iter()
            .map(|subflows| subflows.iter().map(|&(at, bytes)| (address(at), bytes)).collect())
            .collect();
        let made = BTreeSet::from([address(1), address(2)]);
        of_connections(connections.iter().map(Vec::as_slice), &made).into_iter().collect()
    }

    #[test]
    fn each_connection_keeps_the_subflow_that_carried_most() {
        assert!(needed_of(&[]).is_empty());
        assert_eq!(needed_of(&[&[(1, 10), (2, 30)]]), [address(2)]);
        assert_eq!(needed_of(&[&[(1, 10)], &[(2, 5)]]), [address(1), address(2)]);
    }

    #[test]
    fn what_stays_for_another_connection_or_is_somebody_elses_is_enough() {
        assert_eq!(needed_of(&[&[(1, 10)], &[(1, 1), (2, 5)]]), [address(1)]);
        assert!(needed_of(&[&[(1, 10), (3, 0)]]).is_empty());
    }
}
