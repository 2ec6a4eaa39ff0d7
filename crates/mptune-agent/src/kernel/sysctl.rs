//! The files behind the kernel's settings of its network.
//!
//! Reading and writing only; the journal keeps the old values.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Values by name.
pub type Values = BTreeMap<String, String>;

/// A name that is none of a setting of the network.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("expected a setting of the network, found {0:?}")]
pub struct Unknown(String);

/// The file of a setting, by its name as sysctl(8) prints it: a `/` in it stands for a dot in the name of a
/// device.
///
/// # Errors
/// It is no setting of the network.
pub fn file(root: &Path, name: &str) -> Result<PathBuf, Unknown> {
    let parts: Vec<_> = name.split('.').map(|part| part.replace('/', ".")).collect();
    let valid = |part: &String| !matches!(part.as_str(), "" | "." | "..") && !part.contains('\0');
    if parts.len() < 3 || parts[0] != "net" || !parts.iter().all(valid) {
        return Err(Unknown(name.to_owned()));
    }
    Ok(parts.iter().fold(root.to_owned(), |path, part| path.join(part)))
}

/// The raw value.
///
/// # Errors
/// There is no such setting here, or it cannot be read.
pub fn read(file: &Path) -> io::Result<String> {
    fs::read_to_string(file)
}

/// Writes a value in one piece; never makes a file.
///
/// # Errors
/// The kernel refuses it.
pub fn write(file: &Path, value: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(file)?;
    // The kernel takes no empty value; a blank line is one to it.
    file.write_all(if value.is_empty() { b"\n" } else { value.as_bytes() })
}

/// True if two values are the same to the kernel, which separates numbers with tabs and ends with a line
/// feed.
pub fn same(value: &str, other: &str) -> bool {
    value.split_whitespace().eq(other.split_whitespace())
}

/// A value with single blanks.
pub fn single_spaced(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_files() {
        let path_of = |name| file(Path::new("/proc/sys"), name);
        let path = "/proc/sys/net/mptcp/path_manager";
        assert_eq!(path_of("net.mptcp.path_manager"), Ok(path.into()));
        let path = "/proc/sys/net/ipv4/conf/eth0.5/rp_filter";
        assert_eq!(path_of("net.ipv4.conf.eth0/5.rp_filter"), Ok(path.into()));
    }

    #[test]
    fn what_is_no_setting_of_the_network_is_refused() {
        for name in
            ["", "net", "net.mptcp", "kernel.core_pattern.x", "net..x", "net.//.x.y", "/net.a.b"]
        {
            let reason = file(Path::new("/proc/sys"), name).unwrap_err().to_string();
            assert!(reason.starts_with("expected a setting of the network"), "{reason}");
        }
    }

    #[test]
    fn blanks_do_not_count() {
        assert!(same("4096\t131072\t6291456\n", "4096 131072 6291456"));
        assert!(!same("4096 131072", "4096 131072 6291456"));
        assert_eq!(single_spaced("4096\t131072\n"), "4096 131072");
    }
}
