//! A managed connection whose policy acts on samples.

use super::*;

/// The kernel's report of a connection whose two subflows share a buffer: this many bytes are on their way, and
/// if it is held up the first subflow has room.
fn look(kernel: &Kernel, acked: u64, held_up: bool) -> Look {
    let subflow = |(id, pair): (SubflowId, Pair)| {
        let (fast, one) = (id == 0, kernel.subflows[&pair]);
        let rtt = if fast { 10 } else { 400 } * MS;
        SubflowLook {
            id,
            backup: one.backup,
            tcp: TcpInfo {
                mss: 1_000,
                cwnd: 100,
                unacked: if fast && held_up { 50 } else { 100 },
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
    Look { connection, subflows, ..Look::default() }
}

/// The paths on standby after some seconds of a connection that the buffers hold up, or not.
fn after_samples(kernel: &mut Kernel, held_up: bool) -> Vec<String> {
    let begun_ns = kernel.now_ns;
    while kernel.now_ns < begun_ns + 5 * SECOND && kernel.standby().is_empty() {
        kernel.now_ns += 20 * MS;
        let look = look(kernel, (kernel.now_ns - begun_ns) / 1_000, held_up);
        kernel.connection.on_sampled(Some(&look), kernel.now_ns);
        kernel.obey();
    }
    kernel.standby()
}

#[test]
fn guard_acts_on_samples_that_show_the_buffers_holding_the_connection_up() {
    let guard = assignment("guard", (2, 1), json!({}));
    assert_eq!(after_samples(&mut Kernel::established(&guard), false), [] as [String; 0]);
    assert_eq!(after_samples(&mut Kernel::established(&guard), true), ["1-0"]);
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
