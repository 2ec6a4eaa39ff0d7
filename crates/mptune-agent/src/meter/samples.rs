//! Samples of each subflow of a sender by the kernel's statistics, for a recording of the trial.

use crate::kernel::address;
use crate::kernel::info::SubflowInfo;
use serde::Serialize;
use std::net::SocketAddr;

/// Most samples that are kept: an hour of two subflows at intervals of 10 ms.
const MOST: usize = 720_000;
/// `TCP_INFINITE_SSTHRESH`: there was no reduction yet.
const INFINITE: u32 = 0x7fff_ffff;

/// One subflow at one time; windows are in segments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// Time since the `connect` call.
    t_ns: u64,
    /// The kernel's number of the subflow.
    subflow: u32,
    local: SocketAddr,
    remote: SocketAddr,
    cwnd: u32,
    /// None before the first reduction.
    ssthresh: Option<u32>,
    srtt_ns: u64,
    unacked: u32,
    sacked: u32,
    lost: u32,
    /// Bytes handed to it and not sent.
    unsent_bytes: u32,
    /// State of its loss recovery (`tcp_ca_state`).
    state: u8,
    /// Timeouts in a row.
    backoff: u8,
    rwnd_limited_ns: u64,
    sndbuf_limited_ns: u64,
}

/// All samples so far.
#[derive(Debug)]
pub struct Samples {
    spacing_ns: u64,
    due_ns: u64,
    all: Vec<Sample>,
}

impl Samples {
    /// At this interval.
    pub fn new(spacing_ns: u64) -> Self {
        Self { spacing_ns, due_ns: spacing_ns, all: Vec::new() }
    }

    /// Time of the next samples.
    pub fn due_ns(&self) -> u64 {
        if self.all.len() < MOST { self.due_ns } else { u64::MAX }
    }

    /// Takes those of `now_ns`; the next ones are due at the next multiple of the interval.
    pub fn take<'a>(&mut self, now_ns: u64, subflows: impl Iterator<Item = &'a SubflowInfo>) {
        self.all.extend(subflows.map(|info| Sample::new(now_ns, info)));
        self.due_ns = (now_ns / self.spacing_ns + 1) * self.spacing_ns;
    }

    /// In order of time.
    pub fn all(&self) -> &[Sample] {
        &self.all
    }
}

impl Sample {
    fn new(t_ns: u64, info: &SubflowInfo) -> Self {
        let tcp = &info.tcp;
        Self {
            t_ns,
            subflow: info.id,
            local: address::canonical(info.local),
            remote: address::canonical(info.remote),
            cwnd: tcp.cwnd,
            ssthresh: Some(tcp.ssthresh).filter(|&segments| segments < INFINITE),
            srtt_ns: tcp.srtt_ns,
            unacked: tcp.unacked,
            sacked: tcp.sacked,
            lost: tcp.lost,
            unsent_bytes: tcp.unsent,
            state: tcp.state,
            backoff: tcp.timeouts_in_a_row,
            rwnd_limited_ns: tcp.rwnd_limited_ns,
            sndbuf_limited_ns: tcp.sndbuf_limited_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::info::TcpInfo;

    #[test]
    fn samples_are_due_at_multiples_of_the_interval() {
        let ends = ["10.64.0.1:4000", "10.65.0.1:5000"].map(|end| end.parse().unwrap());
        let tcp = TcpInfo { ssthresh: INFINITE, cwnd: 10, ..TcpInfo::default() };
        let info = SubflowInfo { id: 1, local: ends[0], remote: ends[1], tcp };
        let mut samples = Samples::new(10);
        assert_eq!(samples.due_ns(), 10);
        samples.take(13, [info].iter());
        assert_eq!(samples.due_ns(), 20);
        let sample = &samples.all()[0];
        assert_eq!((sample.t_ns, sample.cwnd, sample.ssthresh), (13, 10, None));
    }
}
