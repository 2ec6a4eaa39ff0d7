//! Configuration of a half: the first line on standard input.

use super::error::Error;
use crate::kernel::address;
use mptune_core::workload::Workload;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::net::{IpAddr, SocketAddr};

/// Bytes of a token.
pub const TOKEN_BYTES: usize = 16;
/// Payload bytes of the smallest full segment (RFC 9293, section 3.7.1).
const LEAST_SEGMENT: u32 = 536;
/// First bytes of the trial's connection, and of no other.
pub type Token = [u8; TOKEN_BYTES];

/// A measurement, described the same way for both halves.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Congestion control of the sender; none leaves it to the kernel.
    #[serde(default)]
    pub cc: Option<String>,
    /// `SO_SNDBUF` and `SO_RCVBUF` of both ends, as requested (the kernel doubles it); none leaves both to
    /// the kernel, which lets them grow up to its limits.
    #[serde(default)]
    pub buffer_bytes: Option<u32>,
    /// The same of the receiver alone, where it is another one.
    #[serde(default)]
    pub receive_buffer_bytes: Option<u32>,
    /// The workload, as in the simulator.
    pub workload: Workload,
    /// Width of the bins of the series.
    #[serde(default = "bin_ns")]
    pub bin_ns: u64,
    /// The sender's subflows are sampled at this interval and all samples reported; none does not.
    #[serde(default)]
    pub samples_ns: Option<u64>,
    /// A connection on which nothing arrives in order for this long is stalled.
    pub stall_ns: u64,
    /// Report when this many bytes were sent.
    #[serde(default)]
    pub thresholds_bytes: Vec<u64>,
    /// Multipath TCP; plain TCP otherwise.
    #[serde(default = "yes")]
    pub mptcp: bool,
    /// TCP is taken where there is no MPTCP, as programs do; otherwise that is a failure.
    #[serde(default)]
    pub takes_tcp: bool,
    /// The connection may have subflows of both address families, which Linux allows in sockets of IPv6.
    #[serde(default)]
    pub both_families: bool,
    /// Seed of the payload.
    #[serde(default)]
    pub seed: u64,
    /// 32 hexadecimal digits; without one the first connection is the trial's.
    #[serde(default, deserialize_with = "token")]
    pub token: Option<Token>,
}

/// A half of a measurement, as it is called in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It sends the payload.
    Sender,
    /// It receives the payload, and measures.
    Receiver,
}

/// The configuration of a half, either of which may open the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HalfConfig {
    /// It opens the connection.
    Opens(OpenerConfig),
    /// It accepts it.
    Accepts(AcceptorConfig),
}

/// The configuration of the half that opens the connection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenerConfig {
    /// The measurement.
    pub job: Job,
    /// Its address on the initial path; none leaves it to the routes.
    #[serde(default)]
    pub local: Option<IpAddr>,
    /// The other half's address on it.
    pub remote: IpAddr,
    /// The port at which the other half listens.
    pub port: u16,
    /// The reason why the other half cannot do MPTCP, as it reported; none if it can or need not.
    #[serde(default)]
    pub plain_because: Option<String>,
}

/// The configuration of the half that accepts it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptorConfig {
    /// The measurement.
    pub job: Job,
    /// Address at which it accepts the connection.
    pub address: IpAddr,
    /// The port; 0 for any free one.
    #[serde(default)]
    pub port: u16,
    /// Addresses at which further subflows may join it, including `address` if they may join there.
    #[serde(default)]
    pub joins: Vec<IpAddr>,
}

impl<'de> Deserialize<'de> for HalfConfig {
    /// By its keys: an acceptor has an `address`.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(from)?;
        let config = match value.get("address") {
            Some(_) => serde_json::from_value(value).map(Self::Accepts),
            None => serde_json::from_value(value).map(Self::Opens),
        };
        config.map_err(D::Error::custom)
    }
}

impl Side {
    /// `sender` or `receiver`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }

    /// Its waiting for the connection, in messages.
    pub fn accepting(self) -> &'static str {
        match self {
            Self::Sender => "sender: accepting",
            Self::Receiver => "receiver: accepting",
        }
    }

    /// Buffers of this half, as requested.
    pub fn buffer_bytes(self, job: &Job) -> Option<u32> {
        let own = job.receive_buffer_bytes.filter(|_| self == Self::Receiver);
        own.or(job.buffer_bytes)
    }
}

fn token<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Token>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let digits: Option<Vec<_>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let bytes = digits.map(|digits| {
        digits
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8))
            .collect()
    });
    let token = bytes
        .filter(|_| text.len() == 2 * TOKEN_BYTES)
        .and_then(|bytes: Vec<u8>| bytes.try_into().ok());
    let expected = || D::Error::custom("token: expected 32 hexadecimal digits");
    token.map(Some).ok_or_else(expected)
}

fn bin_ns() -> u64 {
    100_000_000
}

fn yes() -> bool {
    true
}

impl Job {
    /// An address as its sockets take it.
    pub fn socket_address(&self, ip: IpAddr, port: u16) -> SocketAddr {
        SocketAddr::new(if self.both_families { address::mapped(ip) } else { ip }, port)
    }

    /// Checks a job.
    ///
    /// # Errors
    /// The first key whose value is wrong.
    fn checked(mut self) -> Result<Self, Error> {
        self.workload.validate(LEAST_SEGMENT)?;
        self.workload = self.workload.drawn(self.seed);
        let positive = [
            ("bin_ns", Some(self.bin_ns)),
            ("samples_ns", self.samples_ns),
            ("stall_ns", Some(self.stall_ns)),
            ("buffer_bytes", self.buffer_bytes.map(u64::from)),
            ("receive_buffer_bytes", self.receive_buffer_bytes.map(u64::from)),
        ];
        if let Some((key, _)) = positive.iter().find(|(_, value)| *value == Some(0)) {
            return Err(wrong(key, "expected more than 0, found 0".to_owned()));
        }
        let sizes = [
            ("buffer_bytes", self.buffer_bytes),
            ("receive_buffer_bytes", self.receive_buffer_bytes),
        ];
        for (key, bytes) in sizes {
            if let Some(found) = bytes.filter(|&bytes| bytes > i32::MAX as u32 / 2) {
                let most = i32::MAX / 2;
                let expected =
                    format!("expected at most {most}, which Linux doubles, found {found}");
                return Err(wrong(key, expected));
            }
        }
        self.thresholds_bytes.sort_unstable();
        Ok(self)
    }
}

impl HalfConfig {
    /// Checks the configuration of a half.
    ///
    /// # Errors
    /// The first key whose value is wrong.
    pub fn checked(self, side: Side) -> Result<Self, Error> {
        match self {
            Self::Opens(config) => config.checked(side).map(Self::Opens),
            Self::Accepts(config) => config.checked(side).map(Self::Accepts),
        }
    }
}

impl OpenerConfig {
    fn checked(self, side: Side) -> Result<Self, Error> {
        if let Some(local) = &self.local {
            same_family("remote", local, &self.remote)?;
        }
        check_opener(&self.job, side)?;
        Ok(Self { job: self.job.checked()?, ..self })
    }
}

impl AcceptorConfig {
    fn checked(self, side: Side) -> Result<Self, Error> {
        if !self.job.both_families {
            self.joins.iter().try_for_each(|join| same_family("joins", &self.address, join))?;
        }
        let opener = if side == Side::Sender { Side::Receiver } else { Side::Sender };
        check_opener(&self.job, opener)?;
        Ok(Self { job: self.job.checked()?, ..self })
    }
}

/// A receiver has data to send, which its token leads, only if it is a client: no other may open the connection.
fn check_opener(job: &Job, opener: Side) -> Result<(), Error> {
    if opener == Side::Sender || job.workload.purpose().is_some() {
        return Ok(());
    }
    let expected = "expected one in which a client asks, where the receiver opens the connection";
    Err(wrong("workload", expected.to_owned()))
}

fn same_family(key: &str, of: &IpAddr, found: &IpAddr) -> Result<(), Error> {
    if of.is_ipv4() == found.is_ipv4() {
        return Ok(());
    }
    Err(wrong(key, format!("expected an address of the family of {of}, found {found}")))
}

fn wrong(key: &str, expected: String) -> Error {
    Error::Configuration { key: key.to_owned(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = r#"{"cc": "cubic", "buffer_bytes": 4194304,
        "workload": {"kind": "bulk", "duration_ns": 5000000000}, "stall_ns": 10000000000, "thresholds_bytes": [1048576, 524288]}"#;

    fn checked(line: &str, side: Side) -> Result<HalfConfig, String> {
        let config: Result<HalfConfig, _> = serde_json::from_str(line);
        config.map_err(|error| error.to_string())?.checked(side).map_err(|error| error.to_string())
    }

    fn opener(job: &str, side: Side) -> Result<OpenerConfig, String> {
        let line = format!(
            r#"{{"job": {job}, "local": "10.64.0.1", "remote": "10.65.0.1", "port": 5000}}"#
        );
        match checked(&line, side)? {
            HalfConfig::Opens(config) => Ok(config),
            HalfConfig::Accepts(_) => panic!("it has no address to listen at"),
        }
    }

    fn sender(job: &str) -> Result<OpenerConfig, String> {
        opener(job, Side::Sender)
    }

    #[test]
    fn who_accepts_has_an_address_and_the_receiver_opens_where_a_client_asks() {
        let asks = r#"{"kind": "requests", "request_bytes": 100, "response_bytes": 5000, "think_ns": 1,
            "duration_ns": 9, "patience_ns": 9}"#;
        let asking = JOB.replace(r#"{"kind": "bulk", "duration_ns": 5000000000}"#, asks);
        let accepting = |job: &str| format!(r#"{{"job": {job}, "address": "10.64.0.1"}}"#);
        for (job, is_taken) in [(JOB, false), (&asking[..], true)] {
            let opened = opener(job, Side::Receiver);
            let accepted = checked(&accepting(job), Side::Sender);
            assert_eq!((opened.is_ok(), accepted.is_ok()), (is_taken, is_taken));
            for refused in [opened.err(), accepted.err()].into_iter().flatten() {
                assert!(refused.contains("workload: expected one in which"), "{refused}");
            }
            assert!(opener(job, Side::Sender).is_ok());
            let config = checked(&accepting(job), Side::Receiver);
            assert!(matches!(config, Ok(HalfConfig::Accepts(_))));
        }
    }

    #[test]
    fn a_receive_buffer_of_its_own_is_the_receivers() {
        let own = JOB.replace("\"cc\"", "\"receive_buffer_bytes\": 65536, \"cc\"");
        let sizes = |job: &str| {
            let job = sender(job).unwrap().job;
            [Side::Sender, Side::Receiver].map(|side| side.buffer_bytes(&job))
        };
        assert_eq!(sizes(JOB), [Some(4_194_304); 2]);
        assert_eq!(sizes(&own), [Some(4_194_304), Some(65_536)]);
    }

    #[test]
    fn missing_keys_have_their_defaults() {
        let job = sender(JOB).unwrap().job;
        assert_eq!((job.bin_ns, job.mptcp, job.seed), (100_000_000, true, 0));
        assert_eq!(job.thresholds_bytes, [524_288, 1_048_576]);
        assert_eq!(job.workload.limit(), 5_000_000_000);
        assert!(!job.takes_tcp);
    }

    #[test]
    fn an_ordinary_program_chooses_neither_address_nor_congestion_control() {
        let line = format!(
            r#"{{"job": {}, "remote": "10.65.0.1", "port": 5000}}"#,
            JOB.replace("\"cc\": \"cubic\"", "\"takes_tcp\": true")
        );
        let config: OpenerConfig = serde_json::from_str(&line).unwrap();
        let config = config.checked(Side::Sender).unwrap();
        assert_eq!((config.local, config.job.cc, config.job.takes_tcp), (None, None, true));
    }

    #[test]
    fn without_a_size_the_buffers_are_left_to_the_kernel() {
        let job = sender(&JOB.replace("\"buffer_bytes\": 4194304,", "")).unwrap().job;
        assert_eq!(job.buffer_bytes, None);
        assert_eq!(sender(JOB).unwrap().job.buffer_bytes, Some(4_194_304));
        assert_eq!(sender(JOB).unwrap().job.receive_buffer_bytes, None);
        let own = JOB.replace("\"cc\"", "\"receive_buffer_bytes\": 65536, \"cc\"");
        assert_eq!(sender(&own).unwrap().job.receive_buffer_bytes, Some(65_536));
        let large = own.replace("65536", "2147483647");
        assert!(sender(&large).unwrap_err().contains("receive_buffer_bytes: expected at most"));
    }

    #[test]
    fn a_token_is_32_digits() {
        let with = |token: &str| JOB.replace("\"cc\"", &format!("\"token\": {token}, \"cc\""));
        let digits = "00ff1a2b00000000000000000000007f";
        let token = sender(&with(&format!("\"{digits}\""))).unwrap().job.token.unwrap();
        assert_eq!((&token[..4], token[15]), (&[0, 255, 0x1a, 0x2b][..], 0x7f));
        assert_eq!(sender(&with("null")).unwrap().job.token, None);
        for wrong in ["\"\"".to_owned(), format!("\"{}\"", &digits[1..]), format!("\"{digits}g\"")]
        {
            assert!(sender(&with(&wrong)).unwrap_err().contains("token: expected 32"), "{wrong}");
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let cases = [
            ("\"cc\"", "\"ccc\"", "ccc"),
            ("\"workload\"", "\"load\"", "load"),
            ("\"kind\": \"bulk\", ", "", "kind"),
            ("bulk", "transfer", "duration_ns"),
            ("\"duration_ns\": 5000000000", "\"duration_ns\": 0", "workload.duration_ns"),
            ("4194304", "2147483648", "buffer_bytes"),
        ];
        for (from, to, expected) in cases {
            assert!(JOB.contains(from));
            let reason = sender(&JOB.replace(from, to)).unwrap_err();
            assert!(reason.contains(expected) && !reason.contains('\n'), "{reason}");
        }
    }

    #[test]
    fn addresses_of_two_families_are_refused() {
        let job = sender(JOB).unwrap().job;
        let [four, six]: [IpAddr; 2] = ["10.65.0.1", "fd65::1"].map(|ip| ip.parse().unwrap());
        let config = AcceptorConfig { job: job.clone(), address: four, port: 0, joins: vec![six] };
        assert!(
            config.clone().checked(Side::Receiver).unwrap_err().to_string().contains("joins: ")
        );
        let both = Job { both_families: true, ..job.clone() };
        assert_eq!(both.socket_address(four, 1).to_string(), "[::ffff:10.65.0.1]:1");
        assert!(AcceptorConfig { job: both, ..config }.checked(Side::Receiver).is_ok());
        let config =
            OpenerConfig { job, local: Some(four), remote: six, port: 1, plain_because: None };
        assert!(config.checked(Side::Sender).unwrap_err().to_string().contains("remote: "));
    }
}
