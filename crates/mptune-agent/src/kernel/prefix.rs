//! Prefixes of addresses, IPv4 and IPv6: destinations of policies and of routes.

use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;
use thiserror::Error;

/// Text that is no prefix; in a message after "expected".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    /// Something else.
    #[error("a prefix such as 10.9.0.0/16 or 2001:db8::/32")]
    Text,
    /// An address with a length beyond this, or with none after the slash.
    #[error("a prefix of 0 to {0} bits")]
    Length(u8),
    /// An address with bits of a host, in this network.
    #[error("{0} (no bits of a host)")]
    Host(Prefix),
}

/// All addresses that begin like this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// All addresses of the family of this one.
    pub fn default_of(family: IpAddr) -> Self {
        Self { address: family, bits: 0 }.network()
    }

    /// The address of the network.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Its length, bits.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// `10.9.0.0/16`, `2001:db8::/32`; an address alone is all of it.
    ///
    /// # Errors
    /// The form that was expected.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| Error::Text)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let digits =
            |bits: &&str| !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match bits {
            None => most,
            Some(bits) => Some(bits)
                .filter(digits)
                .and_then(|bits| bits.parse().ok())
                .filter(|&bits| bits <= most)
                .ok_or(Error::Length(most))?,
        };
        let prefix = Self { address, bits };
        let whole = prefix.network();
        if whole == prefix { Ok(prefix) } else { Err(Error::Host(whole)) }
    }

    /// An address is in it; an IPv4 address inside IPv6 is an IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        Self { address: address.to_canonical(), bits: self.bits }.network() == *self
    }

    /// Some address is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }

    /// Some host in it: the first one after the address of the network, if there is more than one.
    pub fn some_host(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(ip) => IpAddr::V4((ip.to_bits() | u32::from(self.bits < 32)).into()),
            IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() | u128::from(self.bits < 128)).into()),
        }
    }

    /// Without what stands behind its bits.
    fn network(&self) -> Self {
        let zeros = |all: u32| all.saturating_sub(u32::from(self.bits));
        let address = match self.address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(zeros(32)).unwrap_or(0);
                IpAddr::V4((ip.to_bits() & mask).into())
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(zeros(128)).unwrap_or(0);
                IpAddr::V6((ip.to_bits() & mask).into())
            }
        };
        Self { address, bits: self.bits }
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|expected| format!("expected {expected}"))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(text: &str) -> Prefix {
        Prefix::parse(text).unwrap()
    }

    #[test]
    fn addresses_belong_to_the_prefix_they_begin_with() {
        let four = prefix("10.9.0.0/16");
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(four.contains(ip("10.9.255.1")) && four.contains(ip("::ffff:10.9.0.1")));
        assert!(!four.contains(ip("10.10.0.1")) && !four.contains(ip("2001:db8::1")));
        assert!(prefix("0.0.0.0/0").contains(ip("1.2.3.4")));
        assert!(!prefix("0.0.0.0/0").contains(ip("::1")));
        assert!(prefix("2001:db8::/32").contains(ip("2001:db8:ffff::1")));
        assert_eq!(prefix("10.9.0.1"), prefix("10.9.0.1/32"));
    }

    #[test]
    fn some_host_is_no_address_of_a_network() {
        for (of, host) in
            [("10.9.0.0/16", "10.9.0.1"), ("10.9.0.4/32", "10.9.0.4"), ("fd00::/8", "fd00::1")]
        {
            assert_eq!(prefix(of).some_host().to_string(), host);
            assert!(prefix(of).contains(prefix(of).some_host()));
        }
    }

    #[test]
    fn an_error_names_the_form_that_was_expected() {
        for (text, expected) in [
            ("10.9.0.1/16", "10.9.0.0/16 (no bits of a host)"),
            ("2001:db8::1/32", "2001:db8::/32 (no bits of a host)"),
            ("10.9.0.0/33", "a prefix of 0 to 32 bits"),
            ("10.9.0.0/+8", "a prefix of 0 to 32 bits"),
            ("10.9.0.0/", "a prefix of 0 to 32 bits"),
            ("::/129", "a prefix of 0 to 128 bits"),
            ("example.net", "a prefix such as 10.9.0.0/16 or 2001:db8::/32"),
        ] {
            assert_eq!(Prefix::parse(text).unwrap_err().to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn prefixes_overlap_where_one_holds_an_address_of_the_other(a: u32, b: u32, m in 0u8..=32, n in 0u8..=32) {
            let of = |ip: u32, bits| Prefix { address: IpAddr::V4(ip.into()), bits }.network();
            let (first, second) = (of(a, m), of(b, n));
            let least = m.min(n);
            prop_assert_eq!(first.overlaps(&second), of(a, least) == of(b, least));
            prop_assert_eq!(first.overlaps(&second), second.overlaps(&first));
            prop_assert_eq!(Prefix::parse(&first.to_string()), Ok(first));
        }
    }
}
