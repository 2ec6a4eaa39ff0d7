//! Cutting and rejoining restore the packet; unrelated segments stay apart.

use super::*;
use crate::frame::tests::{Sent, written};
use proptest::prelude::*;

fn sent(v6: bool, payload: usize, segment: u16) -> Sent {
    Sent {
        v6,
        ecn: 0b10,
        identification: 65_530,
        sequence: u32::MAX - 3000,
        flags: ACK | PSH,
        options: 32,
        payload: (0..payload).map(|number| (number / 7) as u8).collect(),
        segment,
    }
}

/// The packets in as few pieces as possible, each with its number of packets.
fn rejoined(packets: &[Vec<u8>]) -> Vec<(Vec<u8>, u64)> {
    let mut trains: Vec<Train> = Vec::new();
    for packet in packets {
        if !trains.last_mut().is_some_and(|train| train.append(1, packet)) {
            trains.push(Train::new());
            trains.last_mut().expect("a train").begin(0, 1, packet);
        }
    }
    let finish = |train: &mut Train| (train.finish().to_vec(), train.due().len() as u64);
    trains.iter_mut().map(finish).collect()
}

fn counts(packets: &[Vec<u8>]) -> Vec<u64> {
    rejoined(packets).into_iter().map(|(_, count)| count).collect()
}

/// Changes a byte of IPv4's header or behind it.
fn changed(packet: &[u8], at: usize) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[PREFIX + at] ^= 1;
    packet
}

proptest! {
    #[test]
    fn what_was_cut_is_rejoined_to_the_byte(
        v6 in any::<bool>(), payload in 1usize..50_000, segment in 500u16..1500, psh in any::<bool>(),
    ) {
        let mut sent = sent(v6, payload, segment);
        sent.flags = if psh { ACK | PSH } else { ACK };
        let bytes = sent.bytes();
        let packets = written(&bytes);
        let pieces = rejoined(&packets);
        prop_assert_eq!(pieces.len(), 1);
        let (whole, count) = &pieces[0];
        prop_assert_eq!(*count, packets.len() as u64);
        if packets.len() > 1 {
            prop_assert_eq!(whole, &bytes);
        } else {
            prop_assert_eq!(whole, &packets[0]);
        }
    }

    /// The middle of a piece, after a loss, is cut again into the same packets.
    #[test]
    fn what_remains_after_a_loss_is_cut_into_the_same_packets(
        v6 in any::<bool>(), lost in prop::collection::vec(any::<bool>(), 20),
    ) {
        let packets = written(&sent(v6, 19_500, 1000).bytes());
        let left: Vec<_> = packets.iter().zip(&lost).filter(|(_, lost)| !**lost).map(|(packet, _)| packet.clone()).collect();
        let cut: Vec<_> = rejoined(&left).iter().flat_map(|(piece, _)| written(piece)).collect();
        prop_assert_eq!(&cut, &left);
        let runs = lost.split(|&lost| lost).filter(|run| !run.is_empty()).count();
        prop_assert_eq!(rejoined(&left).len(), runs);
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), PREFIX..120), left in any::<bool>()) {
        let mut bytes = bytes;
        if left {
            bytes[0] = NEEDS_CHECKSUM;
            bytes[6..10].copy_from_slice(&[20, 0, CHECKSUM as u8, 0]);
        }
        let pieces = rejoined(&[bytes.clone(), bytes.clone()]);
        prop_assert_eq!(pieces.len(), 2);
        prop_assert!(pieces.iter().all(|(piece, _)| *piece == bytes));
    }
}

#[test]
fn every_other_difference_keeps_them_apart() {
    let packets = written(&sent(false, 2000, 1000).bytes());
    assert_eq!(counts(&packets), [2]);
    let tcp = 20;
    // The ECN field, its lifetime, an address, a port, the sequence number, the number acknowledged, a flag (FIN),
    // the window, the urgent pointer, an option.
    for at in [1, 8, 13, tcp + 1, tcp + 7, tcp + 11, tcp + 13, tcp + 15, tcp + 19, tcp + 45] {
        let second = changed(&packets[1], at);
        assert_eq!(counts(&[packets[0].clone(), second]), [1, 1], "byte {at}");
    }
}

#[test]
fn nothing_follows_a_short_segment_or_the_end_of_what_was_sent() {
    let first = sent(false, 2500, 1000);
    let mut second = first.clone();
    second.sequence = first.sequence.wrapping_add(2500);
    let packets = [written(&first.bytes()), written(&second.bytes())].concat();
    assert_eq!(counts(&packets), [3, 3]);
    let mut second = Sent { payload: vec![1; 2000], ..first.clone() };
    let first = Sent { payload: vec![1; 2000], ..first };
    second.sequence = first.sequence.wrapping_add(2000);
    let packets = [written(&first.bytes()), written(&second.bytes())].concat();
    assert_eq!(counts(&packets), [2, 2]);
}

#[test]
fn a_piece_is_no_larger_than_a_packet_can_be() {
    let mut sent = sent(false, 60_000, 1000);
    sent.flags = ACK;
    let mut packets = written(&sent.bytes());
    sent.sequence = sent.sequence.wrapping_add(60_000);
    packets.extend(written(&sent.bytes()));
    let pieces = rejoined(&packets);
    assert!(pieces.iter().all(|(piece, _)| piece.len() <= PREFIX + LARGEST));
    assert_eq!(pieces.iter().map(|(_, count)| count).sum::<u64>(), 120);
    assert_eq!(pieces.len(), 2);
    let cut: Vec<_> = pieces.iter().flat_map(|(piece, _)| written(piece)).collect();
    assert_eq!(cut.len(), 120);
}
