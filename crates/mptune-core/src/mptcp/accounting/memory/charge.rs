//! Socket memory of a packet (Linux `skb->truesize`).
//!
//! The cost depends on the driver that allocated the packet. These are packets of a TUN device, where
//! the kernel testbed emulates its links (`drivers/net/tun.c`, `tun_alloc_skb`): one linear buffer from
//! the allocator's size classes. Measured on Linux 6.18: a connection stalled with 131,328 bytes
//! (`ss -M`, `skmem`) in its out-of-order queue, which is 57 times 2304.

/// The DSS option of a data segment with a 32-bit DATA_ACK and a 64-bit data sequence number, padded
/// (RFC 8684 section 3.3): Linux takes it from the payload of a full segment.
pub const DSS_SIZE: u32 = 24;
/// IPv4 20, TCP 20, timestamps 12 (RFC 7323).
const HEADERS: u32 = 52 + DSS_SIZE;
/// Linux `NET_SKB_PAD`, left free in front of a packet.
const HEADROOM: u32 = 64;
/// Linux `struct skb_shared_info`, at the end of each buffer.
const SHARED_INFO: u32 = 320;
/// Linux `struct sk_buff`.
const SK_BUFF: u32 = 256;
/// Linux `SKB_SMALL_HEAD_CACHE_SIZE`: the smallest buffer.
const SMALL_HEAD: u32 = 576;

/// Bytes of memory charged for a received packet with this much payload. Also used for plain TCP, whose
/// packets lack the DSS option, and for IPv6, whose header is 20 bytes longer: only payloads within 24 bytes
/// of the end of a size class differ.
#[inline]
pub fn truesize(payload: u32) -> u32 {
    let buffer = payload + HEADERS + HEADROOM + SHARED_INFO;
    // Above the smallest one, the allocator's size classes are powers of two.
    let buffer = if buffer <= SMALL_HEAD { SMALL_HEAD } else { buffer.next_power_of_two() };
    buffer + SK_BUFF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_takes_a_buffer_of_2_kib() {
        // Measured with `ss -tmi` on Linux 6.18: receive queues are multiples of 2304 bytes.
        assert_eq!(1448 - DSS_SIZE, 1424);
        assert_eq!(truesize(1424), 2304);
    }

    #[test]
    fn smaller_packets_take_smaller_buffers_but_never_less_than_they_hold() {
        assert_eq!([1, 116, 117, 564, 565].map(truesize), [832, 832, 1280, 1280, 2304]);
        assert!((1..9000).all(|payload| truesize(payload) > payload + HEADERS));
    }
}
