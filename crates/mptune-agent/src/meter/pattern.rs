//! The payload: bytes determined by the seed and their position, generated and checked fast.
//!
//! Not for secrecy. Byte `p` is the byte at `p` modulo the size of a random block of 64 KiB, XORed with
//! a key of 8 bytes that differs from block to block. A stream in which bytes are lost, duplicated or
//! swapped therefore differs from the pattern within a few bytes of the fault, whatever the
//! distance of the shift. Both directions take one XOR per 8 bytes: gigabytes per second, far above
//! what is measured.

/// Bytes of the random block; fits the second-level cache together with the data it is compared with.
const BLOCK: usize = 64 * 1024;
/// Bytes checked at a time.
const CHUNK: usize = 16 * 1024;

/// SplitMix64's output function (Steele, Lea and Flood, OOPSLA 2014): well mixed from any counter.
fn mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The payload of one seed.
pub struct Pattern {
    seed: u64,
    block: Vec<u8>,
}

impl Pattern {
    /// The payload of `seed`.
    pub fn new(seed: u64) -> Self {
        let words = (0..(BLOCK / 8) as u64).flat_map(|i| mix(mix(seed) ^ i).to_le_bytes());
        Self { seed, block: words.collect() }
    }

    /// Writes the payload from position `offset` on.
    pub fn fill(&self, mut offset: u64, mut out: &mut [u8]) {
        while !out.is_empty() {
            let start = (offset % BLOCK as u64) as usize;
            let (now, later) = out.split_at_mut(out.len().min(BLOCK - start));
            self.fill_within_block(offset / BLOCK as u64, start, now);
            offset += now.len() as u64;
            out = later;
        }
    }

    fn fill_within_block(&self, number: u64, start: usize, out: &mut [u8]) {
        // The key as aligned with the words that begin at `start`.
        let key = mix(!self.seed ^ number).rotate_right(8 * (start % 8) as u32);
        let source = &self.block[start..start + out.len()];
        let mut words = out.chunks_exact_mut(8);
        for (out, source) in words.by_ref().zip(source.chunks_exact(8)) {
            let word = u64::from_le_bytes(source.try_into().expect("chunks of 8"));
            out.copy_from_slice(&(word ^ key).to_le_bytes());
        }
        let rest = words.into_remainder();
        let source = &source[source.len() - rest.len()..];
        for ((out, source), key) in rest.iter_mut().zip(source).zip(key.to_le_bytes()) {
            *out = source ^ key;
        }
    }

    /// Offset at which `data`, received at position `offset`, first differs from the payload.
    pub fn first_wrong(&self, mut offset: u64, data: &[u8]) -> Option<u64> {
        let mut expected = [0; CHUNK];
        for data in data.chunks(CHUNK) {
            let expected = &mut expected[..data.len()];
            self.fill(offset, expected);
            if expected != data {
                let wrong =
                    expected.iter().zip(data).position(|(expected, received)| expected != received);
                return wrong.map(|index| offset + index as u64);
            }
            offset += data.len() as u64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn payload(seed: u64, offset: u64, length: usize) -> Vec<u8> {
        let mut out = vec![0; length];
        Pattern::new(seed).fill(offset, &mut out);
        out
    }

    /// First difference for a receiver that reads `stream` in pieces of `piece` bytes.
    fn first_difference(seed: u64, offset: u64, stream: &[u8], piece: usize) -> Option<u64> {
        let pattern = Pattern::new(seed);
        let mut at = offset;
        stream.chunks(piece).find_map(|data| {
            at += data.len() as u64;
            pattern.first_wrong(at - data.len() as u64, data)
        })
    }

    /// The first difference, byte by byte.
    fn difference(stream: &[u8], right: &[u8], offset: u64) -> Option<u64> {
        let index = stream.iter().zip(right).position(|(a, b)| a != b);
        index.map(|index| offset + index as u64)
    }

    #[test]
    fn seeds_blocks_and_positions_differ() {
        let blocks = |seed| [0, 1, 7, 1 << 30].map(|n| payload(seed, n * BLOCK as u64, 64));
        let mut all: Vec<_> = [1, 2].into_iter().flat_map(blocks).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 8);
    }

    proptest! {
        #[test]
        fn pieces_make_the_whole(
            seed: u64, offset in 0u64..1 << 40, length in 1usize..200_000, cut in 0usize..200_000,
        ) {
            let whole = payload(seed, offset, length);
            let cut = cut % length;
            prop_assert_eq!(&payload(seed, offset, cut)[..], &whole[..cut]);
            prop_assert_eq!(&payload(seed, offset + cut as u64, length - cut)[..], &whole[cut..]);
            prop_assert_eq!(first_difference(seed, offset, &whole, cut + 1), None);
        }

        #[test]
        fn a_flipped_bit_is_located(
            seed: u64, offset in 0u64..1 << 40, length in 1usize..150_000, at in 0usize..150_000,
            bit in 0u32..8, piece in 1usize..70_000,
        ) {
            let mut stream = payload(seed, offset, length);
            let at = at % length;
            stream[at] ^= 1 << bit;
            prop_assert_eq!(first_difference(seed, offset, &stream, piece), Some(offset + at as u64));
        }

        /// Up to eight equal bytes in a row can hide the place of the fault, never the fault.
        #[test]
        fn lost_and_doubled_bytes_are_detected_at_once(
            seed: u64, offset in 0u64..1 << 40, at in 0usize..100_000, piece in 1usize..70_000,
            count in prop_oneof![1usize..5000, (1usize..4).prop_map(|blocks| blocks * BLOCK)],
            doubled: bool,
        ) {
            let right = payload(seed, offset, 400_000);
            let mut stream = right.clone();
            if doubled {
                let copy = stream[at..at + count].to_vec();
                stream.splice(at..at, copy);
            } else {
                stream.drain(at..at + count);
            }
            let at = offset + (at + if doubled { count } else { 0 }) as u64;
            let wrong = first_difference(seed, offset, &stream, piece);
            prop_assert_eq!(wrong, difference(&stream, &right, offset));
            prop_assert!(wrong.is_some_and(|wrong| (at..at + 8).contains(&wrong)), "{wrong:?} {at}");
        }
    }
}
