//! A managed connection whose policy acts on samples.

use super::*;
use crate::paths::sampling::SendMemory;
use mptune_core::trial::Forecaster;
use std::sync::Arc;

/// The kernel's report of a connection with a quick and a slow subflow that share a send buffer of that size.
fn look(kernel: &Kernel, acked: u64, buffer: u32) -> Look {
    let subflow = |(id, pair): (SubflowId, Pair)| {
        let (fast, one) = (id == 0, kernel.subflows[&pair]);
        let rtt = if fast { 10 } else { 400 } * MS;
        SubflowLook {
            id,
            backup: one.backup,
            tcp: TcpInfo {
                mss: 1_000,
                cwnd: 100,
                delivery_rate_bps: if fast { 40_000_000 } else { 2_000_000 },
                srtt_ns: rtt,
                min_rtt_ns: rtt,
                bytes_acked: acked / 2,
                ..TcpInfo::default()
            },
        }
    };
    let subflows = kernel.connection.established().into_iter().map(subflow).collect();
    let connection = MptcpInfo {
        write_seq: acked + 1_000_000,
        snd_una: acked,
        bytes_sent: Some(acked + 200_000),
        bytes_acked: Some(acked),
        ..MptcpInfo::default()
    };
    let memory = SendMemory { used: buffer, limit: 2 * buffer };
    Look { connection, memory, subflows }
}

/// The paths on standby after some seconds of a connection with such a buffer.
fn after_samples(buffer: u32) -> Vec<String> {
    let mut guard = assignment("guard", (2, 1), json!({}));
    // Answers come at once.
    guard.policy.foresee(|| Arc::new(Forecaster::of_host("cubic")));
    let kernel = &mut Kernel::established(&guard);
    let begun_ns = kernel.now_ns;
    while kernel.now_ns < begun_ns + 5 * SECOND && kernel.standby().is_empty() {
        kernel.now_ns += 20 * MS;
        let look = look(kernel, (kernel.now_ns - begun_ns) / 1_000, buffer);
        kernel.connection.on_sampled(Some(&look), kernel.now_ns);
        kernel.obey();
    }
    kernel.standby()
}

#[test]
fn guard_acts_where_the_buffer_is_too_small_for_the_slow_subflow() {
    assert_eq!(after_samples(8 << 20), [] as [String; 0]);
    assert_eq!(after_samples(200_000), ["1-0"]);
}

#[test]
fn a_kernel_without_statistics_for_samples_is_a_problem_once() {
    let guard = assignment("guard", (2, 1), json!({}));
    let mut kernel = Kernel::established(&guard);
    for _ in 0..100 {
        kernel.connection.on_sampled(None, SECOND);
    }
    let [problem] = &kernel.connection.problems[..] else { panic!("one problem") };
    assert!(problem.contains("no samples"), "{problem}");
}
