//! What a sender of a job sends, and how it ends.

use super::*;

fn job(goal: &str) -> Job {
    let line =
        format!(r#"{{"cc": "cubic", "buffer_bytes": 65536, "seed": 7, {goal}, "stall_ns": 1}}"#);
    serde_json::from_str(&line).unwrap()
}

#[test]
fn a_transfer_is_its_bytes_whatever_the_piece_size() {
    let size = 2 * WRITE_BYTES + 7;
    let mut expected = vec![0; size];
    Pattern::new(7).fill(0, &mut expected);
    for piece in [1_459, WRITE_BYTES as u64, u64::MAX] {
        let mut payload = Payload::new(&job(&format!(
            r#""workload": {{"kind": "transfer", "bytes": {size}, "deadline_ns": 1}}"#
        )));
        let mut sent = Vec::new();
        while !payload.next(piece).is_empty() {
            sent.extend_from_slice(payload.next(piece));
            payload.advance(payload.next(piece).len());
        }
        assert!(sent == expected, "in pieces of {piece}");
    }
}

#[test]
fn the_token_comes_first() {
    let digits = "00112233445566778899aabbccddeeff";
    for size in [1, WRITE_BYTES + 7] {
        let goal = format!(
            r#""workload": {{"kind": "transfer", "bytes": {size}, "deadline_ns": 1}}, "token": "{digits}""#
        );
        let mut payload = Payload::new(&job(&goal));
        payload.lead(&job(&goal));
        let mut sent = Vec::new();
        while !payload.next(u64::MAX).is_empty() {
            sent.extend_from_slice(payload.next(u64::MAX));
            payload.advance(payload.next(u64::MAX).len());
        }
        let mut expected = vec![0; size];
        Pattern::new(7).fill(0, &mut expected);
        assert_eq!(sent[..4], [0, 0x11, 0x22, 0x33]);
        assert!(sent[TOKEN_BYTES..] == expected, "{size}");
    }
}

#[test]
fn no_message_is_split() {
    let goal = |bytes| {
        format!(
            r#""workload": {{"kind": "messages", "bytes": {bytes}, "interval_ns": 1000000,
                "duration_ns": 4000000000, "patience_ns": 1}}, "token": "00112233445566778899aabbccddeeff""#
        )
    };
    for bytes in [200, 1_000, WRITE_BYTES as u64] {
        let mut payload = Payload::new(&job(&goal(bytes)));
        payload.lead(&job(&goal(bytes)));
        payload.advance(TOKEN_BYTES);
        for message in 0..4_000 {
            assert_eq!(payload.next(bytes).len() as u64, bytes, "{message} of {bytes}");
            payload.advance(payload.next(bytes).len());
        }
        assert!(payload.next(bytes).is_empty());
    }
    let large = 2 * WRITE_BYTES as u64 + 3;
    let mut payload = Payload::new(&job(&goal(large)));
    payload.lead(&job(&goal(large)));
    payload.advance(TOKEN_BYTES);
    assert_eq!(payload.next(large).len(), WRITE_BYTES);
}

#[test]
fn a_saturated_sender_never_runs_out() {
    let mut payload = Payload::new(&job(r#""workload": {"kind": "bulk", "duration_ns": 1}"#));
    for _ in 0..100 {
        assert_eq!(payload.next(u64::MAX).len(), WRITE_BYTES);
        payload.advance(WRITE_BYTES);
    }
}
