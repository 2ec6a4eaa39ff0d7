//! For tests: netlink attributes packed by hand, and a test again under another umask.

use crate::kernel::pair::Pair;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

/// The flag of an attribute that holds attributes.
pub const NESTED: u16 = 0x8000;

/// An attribute with its padding.
pub fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + payload.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Any two ends of one family, ports included.
pub fn ends() -> impl Strategy<Value = Pair> {
    let v4 = any::<[[u8; 4]; 2]>().prop_map(|ends| ends.map(IpAddr::from));
    let v6 = any::<[[u8; 16]; 2]>().prop_map(|ends| ends.map(IpAddr::from));
    (prop_oneof![v4, v6], 1..u16::MAX, 1..u16::MAX).prop_map(|([local, remote], here, there)| {
        Pair { local: SocketAddr::new(local, here), remote: SocketAddr::new(remote, there) }
    })
}

/// Runs the test of this name in a process of its own with this umask, which all threads of a process share; true
/// in that process.
pub fn under_umask(mask: &str, test: &str) -> bool {
    const VARIABLE: &str = "MPTUNE_TEST_UMASK";
    if std::env::var_os(VARIABLE).is_some() {
        return true;
    }
    let done = Command::new("sh")
        .args(["-c", "umask \"$MPTUNE_TEST_UMASK\" && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact"])
        .env(VARIABLE, mask)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
    false
}
