//! The path of a packet, from its addresses and its device.

use crate::config::{Config, Interface, Side};
use crate::header::Addresses;
use mptune_core::network::{Family, RouteId, forward, reverse};

/// Routes by the addresses of their packets, and the devices at their ends.
#[derive(Debug)]
pub(crate) struct Routes {
    /// The routes that begin at each device: a handful, so a search is as fast as a table.
    from: Vec<Vec<(Addresses, RouteId)>>,
    /// The device at the end of each route.
    to: Vec<usize>,
}

impl Routes {
    /// Builds them from a valid configuration.
    pub fn new(config: &Config) -> Self {
        let mut routes = Self { from: vec![Vec::new(); config.interfaces.len()], to: Vec::new() };
        for (number, path) in config.network.paths.iter().enumerate() {
            let local = config.interface(Side::Local, path.local).unwrap_or_default();
            let remote = config.interface(Side::Remote, path.remote).unwrap_or_default();
            for (route, start, end) in
                [(forward(number), local, remote), (reverse(number), remote, local)]
            {
                debug_assert_eq!(route, routes.to.len());
                routes.to.push(end);
                let ends = (&config.interfaces[start], &config.interfaces[end]);
                let pairs = addresses(ends, path.family);
                routes.from[start].extend(pairs.map(|pair| (pair, route)));
            }
        }
        routes
    }

    /// The route of a packet that a device sends; none if its addresses do not belong to a path there.
    #[inline]
    pub fn find(&self, device: usize, addresses: &Addresses) -> Option<RouteId> {
        self.from[device].iter().find(|known| known.0 == *addresses).map(|known| known.1)
    }

    /// The device at the end of a route.
    #[inline]
    pub fn end(&self, route: RouteId) -> usize {
        self.to[route]
    }
}

/// The addresses of a path's packets, of its family if it has one.
fn addresses(
    (from, to): (&Interface, &Interface),
    family: Option<Family>,
) -> impl Iterator<Item = Addresses> {
    let v4 = from.ipv4.zip(to.ipv4).map(|(a, b)| {
        let mut pair = [0; 8];
        pair[..4].copy_from_slice(&a.octets());
        pair[4..].copy_from_slice(&b.octets());
        Addresses::V4(pair)
    });
    let v6 = from.ipv6.zip(to.ipv6).map(|(a, b)| {
        let mut pair = [0; 32];
        pair[..16].copy_from_slice(&a.octets());
        pair[16..].copy_from_slice(&b.octets());
        Addresses::V6(pair)
    });
    let takes = |one| family.is_none_or(|family| family == one);
    v4.filter(|_| takes(Family::Ipv4)).into_iter().chain(v6.filter(|_| takes(Family::Ipv6)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{parsed, two_by_two};
    use crate::header::parse;
    use crate::header::tests::udp;
    use serde_json::json;

    #[test]
    fn every_pair_of_addresses_is_a_path_in_both_directions_and_nothing_else_is() {
        let config = parsed(&two_by_two(json!({})));
        let routes = Routes::new(&config);
        let mut found = Vec::new();
        for (from, a) in config.interfaces.iter().enumerate() {
            for (to, b) in config.interfaces.iter().enumerate() {
                let v4 = udp(a.ipv4.unwrap().into(), b.ipv4.unwrap().into(), 1, 0, 0, 0);
                let v6 = udp(a.ipv6.unwrap().into(), b.ipv6.unwrap().into(), 1, 0, 0, 0);
                for packet in [v4, v6] {
                    let header = parse(&packet).expect("a packet");
                    for device in 0..4 {
                        let route = routes.find(device, &header.addresses);
                        assert_eq!(route.is_some(), a.side != b.side && device == from);
                        if let Some(route) = route {
                            assert_eq!(routes.end(route), to);
                            found.push(route);
                        }
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn paths_of_a_family_take_its_packets() {
        let mut raw = two_by_two(json!({}));
        let paths = raw["network"]["paths"].as_array_mut().expect("paths");
        let (mut four, mut six) = (paths[0].clone(), paths[0].clone());
        (four["family"], six["family"]) = (json!("ipv4"), json!("ipv6"));
        (*paths, six["label"]) = (vec![four, six.clone()], json!("0-0/6"));
        let config = parsed(&raw);
        let routes = Routes::new(&config);
        let (a, b) = (&config.interfaces[0], &config.interfaces[2]);
        assert_ne!(a.side, b.side);
        let v4 = udp(a.ipv4.unwrap().into(), b.ipv4.unwrap().into(), 1, 0, 0, 0);
        let v6 = udp(a.ipv6.unwrap().into(), b.ipv6.unwrap().into(), 1, 0, 0, 0);
        let found = [v4, v6].map(|packet| routes.find(0, &parse(&packet).unwrap().addresses));
        assert_eq!(found, [Some(forward(0)), Some(forward(1))]);
    }
}
