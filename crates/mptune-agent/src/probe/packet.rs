//! The header of a probing datagram: whose it is, which packet of which flow, when it was sent.
//!
//! ```text
//! token 16 | kind 1 | path 1 | flow 2 | id 4 | seq 4 | stamp 4      network order, 32 bytes
//! ```
//!
//! The rest is padding that does not compress. A reply is a header alone, never longer than what it
//! answers: nobody can use the responder to amplify traffic.

/// Bytes of a header.
pub const HEAD: usize = 32;
/// Largest packet: jumbo frames and a little more, bytes.
pub const LARGEST: usize = 9216;
/// Nanoseconds of a unit of `stamp`: 7 minutes fit.
pub const STAMP_NS: u64 = 100;
/// Bytes of a token.
pub const TOKEN: usize = 16;

/// Begin of every datagram of a probe; without it nothing is answered or counted.
pub type Token = [u8; TOKEN];

const REPLY: u8 = 1;
const ANSWER: u8 = 2;
const TIMED: u8 = 4;

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// It answers a packet; its stamp is how long the answer took.
    pub reply: bool,
    /// It is to be answered.
    pub answer: bool,
    /// The time of its arrival is to be recorded.
    pub timed: bool,
    /// Number of the path.
    pub path: u8,
    /// Number of the flow in its order.
    pub flow: u16,
    /// Number of the order.
    pub id: u32,
    /// Number of the packet in its flow.
    pub seq: u32,
    /// Time of sending since its flow began, or duration of the answer; in `STAMP_NS`.
    pub stamp: u32,
}

/// A span in units of a stamp.
pub fn stamp(span_ns: u64) -> u32 {
    u32::try_from(span_ns / STAMP_NS).unwrap_or(u32::MAX)
}

impl Head {
    /// Writes it to the beginning of a packet.
    pub fn write(&self, token: &Token, packet: &mut [u8]) {
        packet[..16].copy_from_slice(token);
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        packet[16] = bit(self.reply, REPLY) | bit(self.answer, ANSWER) | bit(self.timed, TIMED);
        packet[17] = self.path;
        packet[18..20].copy_from_slice(&self.flow.to_be_bytes());
        packet[20..24].copy_from_slice(&self.id.to_be_bytes());
        packet[24..28].copy_from_slice(&self.seq.to_be_bytes());
        packet[28..32].copy_from_slice(&self.stamp.to_be_bytes());
    }

    /// Reads it; none without the token, compared in constant time.
    pub fn read(token: &Token, packet: &[u8]) -> Option<Self> {
        let head = packet.get(..HEAD)?;
        let wrong = head[..16].iter().zip(token).fold(0, |wrong, (a, b)| wrong | (a ^ b));
        let u32_at =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        (wrong == 0).then(|| Self {
            reply: head[16] & REPLY != 0,
            answer: head[16] & ANSWER != 0,
            timed: head[16] & TIMED != 0,
            path: head[17],
            flow: u16::from_be_bytes([head[18], head[19]]),
            id: u32_at(20),
            seq: u32_at(24),
            stamp: u32_at(28),
        })
    }
}

/// A token from its 32 hexadecimal digits.
pub fn token(text: &str) -> Option<Token> {
    let mut token = [0; TOKEN];
    if text.len() != 2 * TOKEN || !text.is_ascii() {
        return None;
    }
    for (number, byte) in token.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * number..2 * number + 2], 16).ok()?;
    }
    Some(token)
}

/// Padding that does not compress (xorshift32, Marsaglia 2003).
pub fn padding(bytes: usize) -> Vec<u8> {
    let mut state = 2_463_534_242_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_be_bytes()[0]
    };
    (0..bytes).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0eff";

    #[test]
    fn a_head_survives_a_round_trip() {
        let token = token(HEX).unwrap();
        let head = Head {
            reply: true,
            answer: false,
            timed: true,
            path: 63,
            flow: 258,
            id: u32::MAX,
            seq: 70_000,
            stamp: 5,
        };
        let mut packet = padding(100);
        head.write(&token, &mut packet);
        assert_eq!(Head::read(&token, &packet), Some(head));
    }

    #[test]
    fn nothing_is_read_without_the_token() {
        let token = token(HEX).unwrap();
        let mut packet = [0; HEAD];
        packet[..16].copy_from_slice(&token);
        assert!(Head::read(&token, &packet).is_some());
        assert!(Head::read(&token, &packet[..HEAD - 1]).is_none());
        packet[15] ^= 1;
        assert!(Head::read(&token, &packet).is_none());
    }

    #[test]
    fn a_token_is_32_digits() {
        assert_eq!(token(HEX).unwrap()[15], 0xff);
        for wrong in
            ["", &HEX[1..], "zz0102030405060708090a0b0c0d0eff", "é00102030405060708090a0b0c0d0e"]
        {
            assert_eq!(token(wrong), None);
        }
    }
}
