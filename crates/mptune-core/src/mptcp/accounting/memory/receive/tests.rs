//! The receive memory against captures on Linux 6.18, and in closed form.

use super::*;
use crate::units::{MILLISECOND, SECOND};

const KIB: Bytes = 1024;

/// Of MPTCP, with this value of `SO_RCVBUF`.
fn fixed(buffer: Bytes) -> ReceiveMemory {
    ReceiveMemory::new(BufferMode::Fixed, buffer, 1424, 1448)
}

/// Of MPTCP, up to this value of `tcp_rmem[2]`.
fn growing(most: Bytes) -> ReceiveMemory {
    ReceiveMemory::new(BufferMode::Auto, most, 1424, 1448)
}

#[test]
fn without_a_scale_the_window_is_whole_segments() {
    // Captured on Linux 6.18 with SO_RCVBUF of 33 KiB and segments of 1424 bytes: windows of 28 and 23 segments.
    let mut memory = fixed(33 * KIB);
    let mut subflow = grown(&mut memory);
    assert_eq!(memory.offer(SECOND, &mut subflow), 28 * 1424);
    assert_eq!(whole_segments(32_900, 33_792, 1424, 0), 23 * 1424);
    // A window less than a segment away stays.
    assert_eq!(whole_segments(32_900, 33_792, 1424, 32_000), 32_000);
    assert_eq!(whole_segments(32_900, 33_792, 1424, 33_000), 23 * 1424);
}

#[test]
fn the_window_is_that_of_linux_6_18() {
    // `ss -tmi` on Linux 6.18 with SO_RCVBUF of 64 and 128 KiB: snd_wnd 80106 and 161004.
    assert_eq!(fixed(64 * KIB).rest_window(), 80_106);
    assert_eq!(fixed(128 * KIB).rest_window(), 161_004);
}

/// A subflow that may offer its maximum, and whose segment size is known.
fn grown(memory: &mut ReceiveMemory) -> SubflowMemory {
    let mut subflow = SubflowMemory::default();
    while memory.grows(0, &mut subflow, 1424, true) {}
    while memory.grows(0, &mut subflow, 500, true) {}
    subflow.rtt = 0;
    memory.on_read(0, [&subflow].into_iter());
    subflow
}

#[test]
fn a_subflow_without_data_halves_the_window() {
    // Captured on Linux 6.18 with SO_RCVBUF of 275 KiB, rounded to the window's scale of 8 bytes.
    let mut memory = fixed(275 * KIB);
    let mut first = grown(&mut memory);
    let mut joined = SubflowMemory::default();
    memory.join(&mut joined);
    assert_eq!(window(&mut memory, &mut first), 346_816);
    memory.on_read(0, [&first, &joined].into_iter());
    memory.on_delivered(0, 100_000);
    assert_eq!(window(&mut memory, &mut first), 281_600);
    memory.grows(0, &mut joined, 1424, true);
    memory.on_read(0, [&first, &joined].into_iter());
    assert_eq!(window(&mut memory, &mut first), 346_816);
}

#[test]
fn a_silent_subflow_narrows_the_window_at_the_end_of_an_rtt_and_so_it_widens_again() {
    // Recorded on Linux 6.18, RTT of 44 ms: a subflow joined at 157.6 ms; windows grew until the
    // application read at 199.7 ms, an RTT after 155.4 ms.
    let mut memory = fixed(275 * KIB);
    let mut first = grown(&mut memory);
    first.rtt = 44 * MILLISECOND;
    let mut joined = SubflowMemory::default();
    let mut offered = |joined: &SubflowMemory, at: Nanos| {
        memory.on_delivered(at, 60_000);
        if memory.measures_on_read(at) {
            memory.on_read(at, [&first, joined].into_iter());
        }
        memory.offer(at + MILLISECOND, &mut first)
    };
    assert_eq!(offered(&joined, 100 * MILLISECOND), 346_816, "not known yet");
    joined.ratio = Some(DEFAULT_RATIO);
    assert_eq!(offered(&joined, 143 * MILLISECOND), 346_816);
    assert!(offered(&joined, 144 * MILLISECOND) < 300_000);
    joined.measure(1424);
    assert!(offered(&joined, 187 * MILLISECOND) < 300_000);
    assert_eq!(offered(&joined, 188 * MILLISECOND), 346_816);
}

#[test]
fn a_larger_segment_or_more_memory_lets_a_fully_grown_window_grow_again() {
    let mut memory = growing(1 << 20);
    let mut subflow = SubflowMemory::default();
    while memory.grows(0, &mut subflow, 1300, true) {}
    assert!(!memory.grows(0, &mut subflow, 1300, true));
    assert!(memory.grows(0, &mut subflow, 1424, true), "more of the memory is payload");
    while memory.grows(0, &mut subflow, 1424, true) {}
    subflow.grow(1 << 19);
    assert!(memory.grows(0, &mut subflow, 1424, true));
}

#[test]
fn the_largest_window_of_a_subflow_grows_by_two_segments_for_each_that_arrives() {
    // `rcv_ssthresh` (`ss -tin`) on Linux 6.18 with SO_RCVBUF of 2 MiB.
    let mut memory = fixed(2048 * KIB);
    let mut subflow = SubflowMemory::default();
    assert!(!memory.grows(0, &mut subflow, 100, true), "a small segment");
    assert!(!memory.grows(0, &mut subflow, 700, true), "a segment that wastes memory");
    assert_eq!(memory.first_window(), 2_095_704);
    let segments =
        std::iter::repeat(()).take_while(|()| memory.grows(0, &mut subflow, 1424, true)).count();
    assert_eq!(segments, 170);
    assert!(!memory.grows(0, &mut subflow, 1424, true));
}

/// The window offered long after everything in order was read.
fn window(memory: &mut ReceiveMemory, subflow: &mut SubflowMemory) -> u32 {
    memory.offer(SECOND, subflow)
}

#[test]
fn a_contradiction_of_the_accounts_is_a_miscount() {
    let miscount = |change: fn(&mut ReceiveMemory), waiting: &[u32], delivered| {
        let mut memory = fixed(64 * KIB);
        memory.on_delivered(0, 1000);
        memory.add_out_of_order(0, 100);
        change(&mut memory);
        memory.miscount(waiting.iter().copied(), delivered)
    };
    assert_eq!(miscount(|_| (), &[100], 1000), None);
    assert_eq!(miscount(|memory| memory.check_in_order_start(1000), &[100], 1000), None);
    assert_eq!(miscount(|memory| memory.remove_out_of_order(100), &[], 1100), None);
    let longer = |memory: &mut ReceiveMemory| memory.remove_out_of_order(1424);
    assert_eq!(miscount(longer, &[], 2424), Some(Miscount::Released));
    let elsewhere = |memory: &mut ReceiveMemory| memory.check_in_order_start(999);
    assert_eq!(miscount(elsewhere, &[100], 1000), Some(Miscount::Displaced));
    assert_eq!(miscount(|_| (), &[1424], 1000), Some(Miscount::OutOfOrder));
    assert_eq!(miscount(|_| (), &[100], 1001), Some(Miscount::Delivered));
}

#[test]
fn a_start_is_known_by_its_lower_32_bits() {
    let mut memory = fixed(64 * KIB);
    let mut subflow = SubflowMemory::default();
    (memory.delivered, memory.edge) = ((1 << 32) - 1000, 0);
    let window = window(&mut memory, &mut subflow);
    memory.check_in_order_start(u32::MAX - 999);
    assert_eq!(memory.miscount(std::iter::empty(), (1 << 32) - 1000), None);
    assert!(!memory.is_beyond(window - 1000) && memory.is_beyond(window - 999));
}

#[test]
fn out_of_order_segments_shrink_the_window_but_never_move_its_edge_back() {
    let mut memory = fixed(64 * KIB);
    let mut subflow = SubflowMemory::default();
    let first = window(&mut memory, &mut subflow);
    assert_eq!(first, 45 * 1448, "whole segments of half the memory, as in the SYN/ACK");
    (0..20).for_each(|_| memory.add_out_of_order(0, 1424));
    assert_eq!(window(&mut memory, &mut subflow), first, "nothing was delivered");
    memory.on_delivered(0, 1000);
    assert_eq!(window(&mut memory, &mut subflow), first - 1000, "the edge stays");
    (0..20).for_each(|_| memory.remove_out_of_order(1424));
    assert_eq!(window(&mut memory, &mut subflow), 64_088, "all is free again, minus a segment");
}

#[test]
fn a_window_shrinks_by_the_data_that_another_subflow_delivered() {
    // Traced on Linux 6.18 (`tcp_probe`, `ack_update_msk`): all subflows offer the same edge, and an
    // idle one's window fell from 7,372,096 to 5,706,200 bytes when another one filled a gap.
    let mut memory = fixed(64 * KIB);
    let (mut idle, mut busy) = (SubflowMemory::default(), SubflowMemory::default());
    let first = window(&mut memory, &mut idle);
    let edge = memory.edge();
    (0..30).for_each(|_| memory.add_out_of_order(0, 1424));
    memory.on_delivered(0, 1424);
    assert_eq!(window(&mut memory, &mut busy), first - 1424);
    memory.on_delivered(0, 1424);
    assert_eq!(window(&mut memory, &mut idle), first - 2 * 1424);
    assert_eq!(memory.edge(), edge);
    assert!(!memory.is_beyond(edge as u32) && memory.is_beyond(edge as u32 + 1));
}

#[test]
fn on_linux_7_the_share_follows_the_subflows_that_carry_data_window_by_window() {
    // A guest's Linux 7.3 with 467 KiB offers 131/256 of its memory once data arrives: (7 * 128 + 158) / 8.
    let mut memory = fixed(467 * KIB).of_release(Release::Linux7);
    let (mut busy, mut silent) = (SubflowMemory::default(), SubflowMemory::default());
    memory.join(&mut silent);
    busy.note_echo(5 * MILLISECOND, 0, 1424);
    memory.grows(0, &mut busy, 1424, true);
    assert_eq!((busy.ratio, memory.ratio), (Some(158), 131));
    // The window of the SYN/ACK is 45 segments of 1448 bytes; one more and the first are not yet that.
    (0..45).for_each(|_| _ = memory.grows(0, &mut busy, 1424, true));
    busy.window = 3 * 1424;
    let mut shares = Vec::new();
    for _ in 0..9 {
        memory.grows(0, &mut busy, 1424, true);
        memory.on_read(0, [busy, silent].iter());
        shares.push(memory.ratio);
    }
    assert_eq!(
        shares,
        [131, 134, 134, 134, 137, 137, 137, 139, 139],
        "a silent subflow is no matter"
    );
    let older = fixed(467 * KIB).of_release(Release::Linux6);
    assert_eq!(older.share, Share::Least);
}

#[test]
fn on_linux_7_a_growing_buffer_is_measured_over_the_least_of_the_last_rtts() {
    let mut memory = growing(1 << 20).of_release(Release::Linux7);
    let (mut fast, mut slow) = (SubflowMemory::default(), SubflowMemory::default());
    let mut window = |subflow: &mut SubflowMemory, rtt, at| {
        subflow.note_echo(at, (at / MILLISECOND - rtt) as u16, 1424);
        let segments = if subflow.window == 0 { 1 } else { 46 };
        (0..segments).for_each(|_| _ = memory.grows(at, subflow, 1424, true));
        subflow.window = 46 * 1424;
        memory.on_read(at, [].into_iter());
        memory.measured_until - memory.measured_at
    };
    assert_eq!(window(&mut slow, 80, SECOND), 80 * MILLISECOND);
    assert_eq!(window(&mut fast, 10, SECOND + 90 * MILLISECOND), 10 * MILLISECOND);
    for later in 2..6 {
        assert_eq!(window(&mut slow, 80, later * SECOND), 10 * MILLISECOND);
    }
    assert_eq!(window(&mut slow, 80, 7 * SECOND), 80 * MILLISECOND, "five later ones");
}

#[test]
fn short_segments_make_a_small_window_grow_by_small_steps() {
    // __tcp_grow_window: 700 bytes in 2304 are worth it below a quarter of what tcp_rmem allows.
    let mut memory = fixed(64 * KIB);
    let mut subflow = SubflowMemory::default();
    let full = 2 * 1448;
    assert!(memory.grows(0, &mut subflow, 1424, true));
    assert_eq!(subflow.largest, Some(64_088 + full));
    assert!(memory.grows(0, &mut subflow, 700, true));
    assert_eq!(subflow.largest, Some(64_088 + full + 2 * 1424));
}

#[test]
fn an_unread_segment_narrows_the_window_unless_that_would_shrink_it() {
    // `ss` and packets on Linux 6.18, 64 KiB: 79474 after a gap was filled, otherwise 80106.
    let mut memory = fixed(64 * KIB);
    let mut subflow = grown(&mut memory);
    memory.on_delivered(10, 1424);
    assert_eq!(memory.offer(20, &mut subflow), 79_474);
    memory.on_delivered(READING + 10, 1424);
    assert_eq!(memory.offer(2 * READING + 20, &mut subflow), 80_106, "it was read");
    memory.on_delivered(3 * READING, 1424);
    assert_eq!(memory.offer(3 * READING, &mut subflow), 80_106, "it is read first");
}

#[test]
fn full_segments_just_fit_and_short_ones_do_not() {
    // 80,106 bytes are 56.25 full segments, and 56 take 129,024 of 131,072 bytes. Cut into 58, one
    // of which is missing, 57 take 131,328.
    let fill = |segments: u32, payload: u32| {
        let mut memory = fixed(64 * KIB);
        (0..segments).for_each(|_| memory.add_out_of_order(7, payload));
        (memory.is_full(), memory.overflowed_at)
    };
    assert_eq!(fill(56, 1424), (false, None));
    assert!(58 * 1380 < fixed(64 * KIB).rest_window());
    assert_eq!(fill(57, 1380), (true, Some(7)));
}

#[test]
fn the_smallest_buffer_offers_a_window_again_once_it_is_read() {
    let mut memory = fixed(1);
    let mut subflow = SubflowMemory::default();
    for _ in 0..3 {
        memory.on_delivered(0, 1);
        assert!(memory.offer(0, &mut subflow) > 0);
    }
}

#[test]
fn a_client_offers_its_window_with_its_scale_from_its_handshake_on() {
    let (answered, mut opened) = (fixed(1024 * KIB), fixed(1024 * KIB));
    opened.open_scaled();
    // The 16 bits of a SYN/ACK; half of the 2 MiB that the kernel makes of it, less a segment.
    assert_eq!(answered.edge(), 65_535);
    assert_eq!(opened.edge(), opened.scaled(opened.first_window()));
    assert!(opened.edge() > 1024 * KIB - 2 * 1448, "{}", opened.edge());
    // A small one needs no scale.
    let (answered, mut opened) = (fixed(16 * KIB), fixed(16 * KIB));
    opened.open_scaled();
    assert!(opened.edge() >= answered.edge() && opened.edge() <= opened.rest_window());
}

#[test]
fn growing_memory_is_what_the_window_needs_and_no_more_than_the_limit() {
    let mut memory = growing(400_000);
    assert_eq!((memory.limit(), memory.shift), (131_072, 7));
    // Half of it minus a segment, as `ss -tin` shows on a new connection: rcv_ssthresh 64088.
    assert_eq!(memory.first_window(), 64_088);
    let mut subflow = grown(&mut memory);
    subflow.rtt = MILLISECOND;
    let read = |memory: &mut ReceiveMemory, at, segments: u32| {
        (0..segments).for_each(|_| memory.on_delivered(at, 1424));
        let before = memory.limit();
        let grown = memory.on_read(at, [&subflow].into_iter());
        assert_eq!(grown, memory.limit() > before);
        memory.limit()
    };
    assert_eq!(read(&mut memory, MILLISECOND, 10), 131_072, "ten segments are no growth");
    // 20 segments are 28,480 bytes: with 14,480 before, 56,960 + 2 * 55,071 (rounded down) of window,
    // which takes 256 / 158 of that in memory.
    assert_eq!(read(&mut memory, 2 * MILLISECOND, 20), 270_747);
    assert_eq!(read(&mut memory, 3 * MILLISECOND, 15), 270_747, "it never shrinks");
    assert_eq!(read(&mut memory, 4 * MILLISECOND, 200), 400_000, "the limit");
}

#[test]
fn a_subflow_that_joins_after_the_growth_keeps_the_first_size() {
    let mut memory = growing(1 << 20);
    memory.limit = 1 << 20;
    let (mut early, mut late) = (SubflowMemory::default(), SubflowMemory::default());
    early.grow(memory.limit);
    for subflow in [&mut early, &mut late] {
        while memory.grows(0, subflow, 1424, true) {}
    }
    // 158 of 256 bytes of memory are payload (1424 of 2304), of which the segment takes 2304.
    assert_eq!(early.largest, Some((1_048_576 - 2304) * 158 / 256));
    assert_eq!(late.largest, Some((131_072 - 2304) * 158 / 256));
}

#[test]
fn a_small_limit_is_what_a_connection_begins_with() {
    assert_eq!(growing(65_536).limit(), 65_536);
}

#[test]
fn the_queue_of_a_plain_tcp_takes_from_its_window() {
    // 800 segments take 1.8 of 2 MiB; the SYN's window of 64 KiB, which cannot shrink, is less than the rest.
    let offered = |mut memory: ReceiveMemory, out_of_order| {
        memory.charge_subflow_queue(out_of_order);
        memory.offer(0, &mut SubflowMemory::default())
    };
    let tcp = || ReceiveMemory::new(BufferMode::Fixed, 1024 * KIB, 1448, 1448).of_plain_tcp();
    let [empty, full] = [0, 800].map(|n| offered(tcp(), n));
    let free = (2048 * KIB - 800 * 2304) / 2;
    assert!(full < empty && Bytes::from(full) <= free + 64, "{full} of {free}, {empty}");
    let [empty, full] = [0, 800].map(|n| offered(fixed(1024 * KIB), n));
    assert_eq!(full, empty, "under MPTCP it is the subflow's");
}

#[test]
fn any_buffer_offers_a_window_that_its_scale_can_express() {
    for buffer in (1..40).map(|power| 1 << power) {
        let mut memory = fixed(buffer);
        let window = memory.offer(0, &mut SubflowMemory::default());
        assert!(window > 0 && window <= 65_535 << 14, "{buffer}: {window}");
        assert!(memory.edge() >= Bytes::from(window));
    }
}
