//! What a measurement is asked for: the first line on standard input.

use serde::Deserialize;
use std::net::IpAddr;
use std::path::PathBuf;

/// One end of the connection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Its network namespace, such as /proc/123/ns/net.
    pub netns: PathBuf,
    /// Its address on the initial path.
    pub address: IpAddr,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Sends the data and opens the connection.
    pub sender: End,
    /// Receives it.
    pub receiver: End,
    /// Congestion control of the sender.
    pub cc: String,
    /// `SO_SNDBUF` and `SO_RCVBUF` of both ends, as asked for (the kernel doubles it).
    pub buffer_bytes: u32,
    /// Saturated sender for so long; none for a transfer.
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// Transfer of so many bytes; none for a saturated sender.
    #[serde(default)]
    pub transfer_bytes: Option<u64>,
    /// Give up after so long.
    pub deadline_ns: u64,
    /// Width of the bins of the series.
    #[serde(default = "bin_ns")]
    pub bin_ns: u64,
    /// A connection on which nothing arrives in order for so long is stalled.
    pub stall_ns: u64,
    /// Report when so many bytes were sent.
    #[serde(default)]
    pub thresholds_bytes: Vec<u64>,
    /// Multipath TCP; plain TCP otherwise.
    #[serde(default = "yes")]
    pub mptcp: bool,
    /// Seed of the payload.
    #[serde(default)]
    pub seed: u64,
}

fn bin_ns() -> u64 {
    100_000_000
}

fn yes() -> bool {
    true
}

impl Config {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// One line with the key and what was expected there.
    pub fn parse(line: &str) -> Result<Self, String> {
        let mut config: Self =
            serde_json::from_str(line).map_err(|error| format!("configuration: {error}"))?;
        config.check()?;
        config.thresholds_bytes.sort_unstable();
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.duration_ns.is_some() == self.transfer_bytes.is_some() {
            return Err("configuration: one of duration_ns and transfer_bytes expected".to_owned());
        }
        let positive = [
            ("duration_ns", self.duration_ns),
            ("transfer_bytes", self.transfer_bytes),
            ("deadline_ns", Some(self.deadline_ns)),
            ("bin_ns", Some(self.bin_ns)),
            ("stall_ns", Some(self.stall_ns)),
            ("buffer_bytes", Some(self.buffer_bytes.into())),
        ];
        if let Some((key, _)) = positive.iter().find(|(_, value)| *value == Some(0)) {
            return Err(format!("configuration: {key}: more than 0 expected, found 0"));
        }
        if self.buffer_bytes > i32::MAX as u32 / 2 {
            return Err(format!(
                "configuration: buffer_bytes: at most {} expected, which Linux doubles; found {}",
                i32::MAX / 2,
                self.buffer_bytes
            ));
        }
        if self.sender.address.is_ipv4() != self.receiver.address.is_ipv4() {
            return Err(format!(
                "configuration: receiver.address: the family of the sender's {} expected, found {}",
                self.sender.address, self.receiver.address
            ));
        }
        Ok(())
    }

    /// When the measurement is over at the latest.
    pub fn limit_ns(&self) -> u64 {
        self.duration_ns.unwrap_or(u64::MAX).min(self.deadline_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"sender": {"netns": "/proc/1/ns/net", "address": "10.64.0.1"},
        "receiver": {"netns": "/proc/2/ns/net", "address": "10.65.0.1"}, "cc": "cubic",
        "buffer_bytes": 4194304, "duration_ns": 5000000000, "deadline_ns": 60000000000,
        "stall_ns": 10000000000, "thresholds_bytes": [1048576, 524288]}"#;

    fn refusal(from: &str, to: &str) -> String {
        assert!(WHOLE.contains(from));
        Config::parse(&WHOLE.replace(from, to)).unwrap_err()
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let config = Config::parse(WHOLE).unwrap();
        assert_eq!((config.bin_ns, config.mptcp, config.seed), (100_000_000, true, 0));
        assert_eq!(config.thresholds_bytes, [524_288, 1_048_576]);
        assert_eq!(config.limit_ns(), 5_000_000_000);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("\"cc\"", "\"ccc\"", "ccc"),
            ("10.64.0.1", "10.64.0", "IP"),
            ("10.64.0.1", "fd64::1", "receiver.address"),
            ("\"duration_ns\": 5000000000, ", "", "duration_ns and transfer_bytes"),
            ("\"cc\"", "\"transfer_bytes\": 1, \"cc\"", "duration_ns and transfer_bytes"),
            ("5000000000", "0", "duration_ns"),
            ("4194304", "2147483648", "buffer_bytes"),
        ];
        for (from, to, expected) in cases {
            let line = refusal(from, to);
            assert!(line.contains(expected) && !line.contains('\n'), "{line}");
        }
    }
}
