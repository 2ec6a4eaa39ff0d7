//! Parameters of paths for a path policy, in the layout of its program's map (`bpf/include/paths.h`).
//!
//! Not here: what a policy makes of it, and which parameter concerns which policy (the controller knows).

use crate::kernel::libbpf::{self, Libbpf};
use crate::kernel::prefix::Prefix;
use serde::Deserialize;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr};

/// Name of the map.
const MAP: &str = "paths";
/// The file that a guest's kernel has in its place (`bpf/builtin/table.c`).
pub const TABLE: &str = "/dev/mptune-paths";
/// Bytes of its keys: the number of bits that count, and two addresses; and of its values: the cap, the weight and the rank.
const KEY_BYTES: usize = 36;
const VALUE_BYTES: usize = 16;
/// Behind an entry of a guest's table.
const FILL: [u8; 4] = [0; 4];
/// Bits of an address, as the map has them, and those of them before one of IPv4.
const ADDRESS_BITS: u32 = 128;
const MAPPED_BITS: u32 = 96;

/// Parameters of one path, 0 or none for those that are not given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// Address of the subflow at this end.
    local: IpAddr,
    /// Address at the other end, or a prefix of several; without it, every path of the local one that is not told
    /// itself. Of several the longest counts.
    #[serde(default)]
    remote: Option<Prefix>,
    /// Place in the order of the paths, the first 0.
    #[serde(default)]
    rank: Option<u32>,
    /// Share beside those of the other paths.
    #[serde(default)]
    weight: u32,
    /// Largest rate of payload, bit/s.
    #[serde(default)]
    cap_bps: u64,
}

impl Told {
    fn key(&self) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        let (bits, path) = key.split_at_mut(size_of::<u32>());
        let (local, remote) = path.split_at_mut(path.len() / 2);
        local.copy_from_slice(&mapped(self.local));
        let mut known = ADDRESS_BITS;
        if let Some(prefix) = self.remote {
            remote.copy_from_slice(&mapped(prefix.address()));
            let before = if prefix.address().is_ipv4() { MAPPED_BITS } else { 0 };
            known += before + u32::from(prefix.bits());
        }
        bits.copy_from_slice(&known.to_ne_bytes());
        key
    }

    fn value(&self) -> [u8; VALUE_BYTES] {
        let mut value = [0; VALUE_BYTES];
        // A cap below 8 bit/s is one byte, since 0 is none.
        let cap = if self.cap_bps == 0 { 0 } else { (self.cap_bps / 8).max(1) };
        value[..8].copy_from_slice(&cap.to_ne_bytes());
        value[8..12].copy_from_slice(&self.weight.to_ne_bytes());
        let rank = self.rank.map_or(0, |rank| rank.saturating_add(1));
        value[12..].copy_from_slice(&rank.to_ne_bytes());
        value
    }
}

/// The 16 bytes of an address; of IPv4 as ::ffff:a.b.c.d.
fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => Ipv6Addr::octets(&address),
    }
}

/// Tells the path policies that are part of a guest's kernel, in place of what they were told before.
///
/// # Errors
/// The kernel has no table, or it refuses this one.
pub fn write(told: &[Told]) -> io::Result<()> {
    let entries = told.iter().flat_map(|path| [&path.value()[..], &path.key(), &FILL].concat());
    OpenOptions::new().write(true).open(TABLE)?.write_all(&entries.collect::<Vec<_>>())
}

/// Tells the program that is registered under this name; what it was told before and is not here is forgotten. False if
/// it goes by nothing that it could be told.
///
/// # Errors
/// The kernel refuses it.
pub fn tell(library: &Libbpf, name: &str, told: &[Told]) -> Result<bool, libbpf::Error> {
    let Some(map) = library.prefix_map::<KEY_BYTES, VALUE_BYTES>(name, MAP)? else {
        return Ok(false);
    };
    let entries: Vec<_> = told.iter().map(|path| (path.key(), path.value())).collect();
    map.replace(&entries)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(path: serde_json::Value) -> Told {
        serde_json::from_value(path).expect("a path")
    }

    fn number(bytes: &[u8]) -> u32 {
        u32::from_ne_bytes(bytes.try_into().expect("four"))
    }

    #[test]
    fn an_address_of_ipv4_is_mapped_and_none_at_the_other_end_counts_no_bits() {
        let path = told(json!({"local": "10.64.0.1", "cap_bps": 2_000_000, "rank": 0}));
        let mut key = [0; KEY_BYTES];
        key[..4].copy_from_slice(&128u32.to_ne_bytes());
        key[14..20].copy_from_slice(&[0xff, 0xff, 10, 64, 0, 1]);
        assert_eq!(path.key(), key);
        let both = told(json!({"local": "fd00::1", "remote": "fd00::2", "weight": 3}));
        assert_eq!(number(&both.key()[..4]), 256);
        assert_eq!((both.key()[4], both.key()[19], both.key()[35]), (0xfd, 1, 2));
        assert_eq!(u64::from_ne_bytes(path.value()[..8].try_into().expect("eight")), 250_000);
        assert_eq!((number(&path.value()[8..12]), number(&path.value()[12..])), (0, 1));
        assert_eq!((number(&both.value()[8..12]), number(&both.value()[12..])), (3, 0));
    }

    #[test]
    fn a_prefix_at_the_other_end_counts_its_bits() {
        for (remote, bits) in [("10.9.0.0/16", 240), ("0.0.0.0/0", 224), ("2001:db8::/32", 160)] {
            let path = told(json!({"local": "10.64.0.1", "remote": remote}));
            assert_eq!(number(&path.key()[..4]), bits);
        }
        let wrong = json!({"local": "10.64.0.1", "remote": "10.9.0.1/16"});
        let error = serde_json::from_value::<Told>(wrong).unwrap_err().to_string();
        assert_eq!(error, "expected 10.9.0.0/16 (no bits of a host)");
    }

    #[test]
    fn the_smallest_cap_is_not_none() {
        assert_eq!(told(json!({"local": "::1", "cap_bps": 1})).value()[..8], 1u64.to_ne_bytes());
    }
}
