//! The configuration: the emulator's first line of input.

use crate::error::Error;
use crate::recorder::Recording;
use mptune_core::error::SpecError;
use mptune_core::network::{LinkSpec, NetworkSpec, PathSpec};
use mptune_core::units::BitsPerSecond;
use serde::Deserialize;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// Longest name of a device (IFNAMSIZ of `linux/if.h`, less the terminating zero).
const LONGEST_NAME: usize = 15;

/// Bits of an opportunity of a trace: 1500 bytes.
const TRACE_PACKET_BITS: u64 = 12_000;

/// The end of the paths that an interface is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    /// The data sender's end.
    Local,
    /// The receiver's end.
    Remote,
}

/// A site's interface and its device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interface {
    pub side: Side,
    /// Its number on that side, as in the paths of the network.
    pub index: usize,
    /// File of the network namespace in which the device is created.
    pub netns: PathBuf,
    /// Name of the device.
    pub device: String,
    #[serde(default)]
    pub ipv4: Option<Ipv4Addr>,
    #[serde(default)]
    pub ipv6: Option<Ipv6Addr>,
}

/// The network to emulate and its ends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Its background TCP connections are ignored; the testbed `namespaces` refuses networks that have any.
    pub network: NetworkSpec,
    pub seed: u64,
    pub interfaces: Vec<Interface>,
    /// Packets are recorded.
    #[serde(default)]
    pub recording: Option<Recording>,
}

impl Config {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// The first problem, with its key.
    pub fn parse(line: &[u8]) -> Result<Self, Error> {
        let config: Self = serde_json::from_slice(line).map_err(Error::Configuration)?;
        config.validate().map_err(Error::Specification)?;
        Ok(config)
    }

    fn validate(&self) -> Result<(), SpecError> {
        self.network
            .validate()
            .map_err(|e| SpecError::new(format!("network.{}", e.key), e.expected))?;
        for (number, interface) in self.interfaces.iter().enumerate() {
            let wrong = |key: &str, expected: String| {
                Err(SpecError::new(format!("interfaces[{number}].{key}"), expected))
            };
            let name = &interface.device;
            if name.is_empty() || name.len() > LONGEST_NAME || name.contains(['/', '%', '\0']) {
                return wrong("device", format!("expected a device name, found {name:?}"));
            }
            if interface.ipv4.is_none() && interface.ipv6.is_none() {
                return wrong("ipv4", "expected an address here or under ipv6".into());
            }
            let before = &self.interfaces[..number];
            if before.iter().any(|b| (b.side, b.index) == (interface.side, interface.index)) {
                let index = interface.index;
                return wrong("index", format!("expected an index once per side, found {index}"));
            }
            let same = |b: &Interface| {
                interface.ipv4.is_some() && b.ipv4 == interface.ipv4
                    || interface.ipv6.is_some() && b.ipv6 == interface.ipv6
            };
            if before.iter().any(same) {
                return wrong("ipv4", "expected unique addresses".into());
            }
        }
        self.check_paths()
    }

    fn check_paths(&self) -> Result<(), SpecError> {
        for (number, path) in self.network.paths.iter().enumerate() {
            let key = format!("network.paths[{number}]");
            for (side, index) in [(Side::Local, path.local), (Side::Remote, path.remote)] {
                if self.interface(side, index).is_none() {
                    let expected = format!("expected an interface {index} on side {side:?}");
                    return Err(SpecError::new(key, expected.to_lowercase()));
                }
            }
            let before = &self.network.paths[..number];
            let same = |b: &PathSpec| {
                let apart = b.family.is_some() && path.family.is_some() && b.family != path.family;
                (b.local, b.remote) == (path.local, path.remote) && !apart
            };
            if before.iter().any(same) {
                let expected =
                    "expected one path per pair of interfaces and family: addresses name the path";
                return Err(SpecError::new(key, expected));
            }
        }
        Ok(())
    }

    /// Approximate data capacity of all paths together: each path counts with its slowest link, and a link that
    /// is the slowest of several paths counts once; none if unbounded. Changes of a rate over time are ignored.
    pub fn capacity(&self) -> Option<BitsPerSecond> {
        let links = &self.network.links;
        let mut slowest = Vec::new();
        for path in &self.network.paths {
            let bounded = path.forward.iter().filter_map(|&link| Some((rate(&links[link])?, link)));
            slowest.push(bounded.min()?);
        }
        slowest.sort_unstable();
        slowest.dedup();
        Some(slowest.iter().map(|&(rate, _)| rate).fold(0, BitsPerSecond::saturating_add))
    }

    /// Position of an interface in the list.
    pub fn interface(&self, side: Side, index: usize) -> Option<usize> {
        self.interfaces.iter().position(|i| (i.side, i.index) == (side, index))
    }
}

/// A link's rate, or a trace's mean rate; none if unlimited.
fn rate(link: &LinkSpec) -> Option<BitsPerSecond> {
    let mean = |trace: &Vec<u32>| {
        let bits = trace.len() as u64 * TRACE_PACKET_BITS;
        Some(bits * 1000 / u64::from(*trace.last()?))
    };
    let trace = link.trace_ms.as_ref().and_then(mean);
    let bucket = link.bucket.as_ref().map(|bucket| bucket.rate_bps);
    [link.rate_bps, trace, bucket].into_iter().flatten().min()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Interface i of the sender to j of the receiver over one link each way; `links` may set more than the
    /// links' zero delay.
    pub(crate) fn two_by_two(links: Value) -> Value {
        let interface = |side: &str, index: usize| {
            let site = if side == "local" { 4 } else { 5 };
            json!({
                "side": side, "index": index, "netns": "/proc/1/ns/net", "device": format!("if{index}"),
                "ipv4": format!("10.6{site}.{index}.1"), "ipv6": format!("fd6{site}:0:{index}::1"),
            })
        };
        let path = |local: usize, remote: usize| {
            let forward = 2 * (2 * local + remote);
            json!({
                "label": format!("{local}-{remote}"), "local": local, "remote": remote,
                "forward": [forward], "reverse": [forward + 1],
            })
        };
        let mut all = Vec::new();
        for number in 0..8 {
            let mut link = json!({"name": format!("link {number}"), "delay_ns": 0});
            let more = links.as_object().expect("an object").clone();
            link.as_object_mut().expect("an object").extend(more);
            all.push(link);
        }
        json!({
            "seed": 1,
            "network": {"links": all, "paths": [path(0, 0), path(0, 1), path(1, 0), path(1, 1)]},
            "interfaces": [
                interface("local", 0), interface("local", 1),
                interface("remote", 0), interface("remote", 1),
            ],
        })
    }

    pub(crate) fn parsed(config: &Value) -> Config {
        Config::parse(config.to_string().as_bytes()).expect("valid")
    }

    fn refused(change: impl Fn(&mut Value)) -> String {
        let mut config = two_by_two(json!({}));
        change(&mut config);
        Config::parse(config.to_string().as_bytes()).expect_err("invalid").to_string()
    }

    #[test]
    fn a_valid_one_is_taken() {
        assert_eq!(parsed(&two_by_two(json!({}))).interfaces.len(), 4);
    }

    #[test]
    fn the_capacity_is_that_of_the_slowest_links() {
        assert_eq!(parsed(&two_by_two(json!({}))).capacity(), None);
        let mut config = two_by_two(json!({"rate_bps": 5_000_000}));
        assert_eq!(parsed(&config).capacity(), Some(20_000_000));
        // An access link that two paths share, and a trace of 2 packets in 8 ms instead of a rate.
        let links = config["network"]["links"].as_array_mut().expect("links");
        links.push(json!({"name": "shared", "delay_ns": 0, "rate_bps": 4_000_000}));
        links[6] = json!({"name": "link 6", "delay_ns": 0, "trace_ms": [1, 8]});
        config["network"]["paths"][0]["forward"] = json!([8, 0]);
        config["network"]["paths"][1]["forward"] = json!([8, 2]);
        assert_eq!(parsed(&config).capacity(), Some(4_000_000 + 5_000_000 + 3_000_000));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let key = |reason: String| reason.split(": ").next().unwrap_or_default().to_owned();
        let missing = |c: &mut Value| {
            c["interfaces"].as_array_mut().expect("a list").pop();
        };
        assert_eq!(key(refused(missing)), "network.paths[1]");
        let rate = |c: &mut Value| c["network"]["links"][3]["rate_bps"] = json!(7);
        assert_eq!(key(refused(rate)), "network.links[3].rate_bps");
        let name = |c: &mut Value| c["interfaces"][2]["device"] = json!("a-name-that-is-long");
        assert_eq!(key(refused(name)), "interfaces[2].device");
        let index = |c: &mut Value| c["interfaces"][1]["index"] = json!(0);
        assert_eq!(key(refused(index)), "interfaces[1].index");
        let address = |c: &mut Value| c["interfaces"][3]["ipv6"] = json!("fd65:0:0::1");
        assert_eq!(key(refused(address)), "interfaces[3].ipv4");
        let pair = |c: &mut Value| c["network"]["paths"][3]["remote"] = json!(0);
        assert_eq!(key(refused(pair)), "network.paths[3]");
        assert!(refused(|c| c["colour"] = json!("red")).contains("colour"));
    }
}
