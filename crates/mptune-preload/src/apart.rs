//! The answer of `MPTCP_FULL_INFO` (Linux 6.5) from the three options that Linux has since 5.16: the connection,
//! the ends of its subflows, and their TCP state.
//!
//! Not the calls themselves, and not what is in the answer. The agent compiles this file too
//! (`crates/mptune-agent/src/kernel/mod.rs`), so nothing here is of this crate; nothing allocates or panics, because
//! the library runs inside other people's programs.
//!
//! Layouts: Linux `include/uapi/linux/mptcp.h`. What `struct mptcp_info` lacks before 6.5 stays absent, because the
//! header ends before it. Such kernels do not number subflows: theirs are 0, while others begin at 1.

/// `struct mptcp_info`.
pub const MPTCP_INFO: i32 = 1;
/// `struct tcp_info` of each subflow.
pub const MPTCP_TCPINFO: i32 = 2;
/// `struct mptcp_subflow_addrs` of each subflow.
pub const MPTCP_SUBFLOW_ADDRS: i32 = 3;

/// Fixed part of `struct mptcp_full_info`, bytes.
pub const FULL_INFO_HEADER: usize = 40;
/// `struct mptcp_subflow_addrs`: two socket addresses of 128 bytes.
pub const ADDRESSES: usize = 256;
/// `struct mptcp_subflow_info`: a number, padding, and the same.
pub const SUBFLOW_INFO: usize = ADDRESSES + 8;
/// `struct mptcp_subflow_data`, which precedes the elements of the two options about subflows.
pub const DATA_HEAD: usize = 16;
/// Most readings of the subflows until they are the same before and after their state. Subflows come and go a few
/// times in a second at most, and a reading takes microseconds.
const ATTEMPTS: usize = 8;

/// Room for the answer, as `MPTCP_FULL_INFO` would fill it.
pub struct Answer<'a> {
    /// `struct mptcp_full_info`.
    pub header: &'a mut [u8],
    /// Array of `struct mptcp_subflow_info`.
    pub subflows: &'a mut [u8],
    /// Array of `struct tcp_info`.
    pub tcp: &'a mut [u8],
    /// Bytes wanted of each `struct tcp_info`.
    pub tcp_size: usize,
    /// Room for one of the two options: [`DATA_HEAD`] and as many elements as are wanted.
    pub spare: &'a mut [u8],
}

/// Fills `answer` in; bytes of its header that are known.
///
/// # Arguments
/// `option` reads a socket option of MPTCP, which may hold a request, and returns the bytes that were written.
///
/// # Errors
/// The kernel has no such options, or the socket is no connection of MPTCP any more.
pub fn assemble<E>(
    mut option: impl FnMut(i32, &mut [u8]) -> Result<usize, E>,
    answer: &mut Answer<'_>,
) -> Result<usize, E> {
    let info = answer.header.get_mut(FULL_INFO_HEADER..).unwrap_or_default();
    let length = option(MPTCP_INFO, info)?;
    let (mut stride, mut count) = (0, 0);
    for _ in 0..ATTEMPTS {
        let before = elements(&mut option, MPTCP_SUBFLOW_ADDRS, ADDRESSES, answer.spare)?;
        let places =
            answer.subflows.chunks_exact_mut(SUBFLOW_INFO).zip(listed(answer.spare, before));
        for (place, addresses) in places {
            place.fill(0);
            place
                .iter_mut()
                .skip(SUBFLOW_INFO - ADDRESSES)
                .zip(addresses)
                .for_each(|(to, from)| *to = *from);
        }
        let state = elements(&mut option, MPTCP_TCPINFO, answer.tcp_size, answer.spare)?;
        let written = listed(answer.spare, state).flatten();
        answer.tcp.iter_mut().zip(written).for_each(|(to, from)| *to = *from);
        let after = elements(&mut option, MPTCP_SUBFLOW_ADDRS, ADDRESSES, answer.spare)?;
        let mut known = answer.subflows.chunks_exact(SUBFLOW_INFO).zip(listed(answer.spare, after));
        let same = known.all(|(place, addresses)| place.ends_with(addresses));
        (stride, count) = (state.size, before.count.min(state.count));
        if same && before.count == state.count && state.count == after.count {
            break;
        }
    }
    for (offset, value) in [(4, stride), (12, SUBFLOW_INFO), (16, count)] {
        let field = answer.header.get_mut(offset..).and_then(|rest| rest.first_chunk_mut());
        if let Some(field) = field {
            *field = (value as u32).to_ne_bytes();
        }
    }
    Ok(length.saturating_add(FULL_INFO_HEADER))
}

/// Result of one of the two options: bytes of an element, and elements.
#[derive(Clone, Copy)]
struct Elements {
    size: usize,
    count: usize,
}

/// Reads an option of which at most `size` bytes of each element are wanted.
fn elements<E>(
    option: &mut impl FnMut(i32, &mut [u8]) -> Result<usize, E>,
    name: i32,
    size: usize,
    room: &mut [u8],
) -> Result<Elements, E> {
    for (word, value) in room.chunks_exact_mut(4).zip([DATA_HEAD, 0, 0, size]) {
        word.copy_from_slice(&(value as u32).to_ne_bytes());
    }
    option(name, room)?;
    let word = |offset: usize| {
        let field = room.get(offset..).and_then(|rest| rest.first_chunk());
        field.map_or(0, |field| u32::from_ne_bytes(*field) as usize)
    };
    // The kernel lowers the size to its own, and counts the subflows that found no room too.
    let size = word(12);
    let fit = room.len().saturating_sub(DATA_HEAD).checked_div(size).unwrap_or(0);
    Ok(Elements { size, count: word(4).min(fit) })
}

/// The elements in `room`.
fn listed(room: &[u8], elements: Elements) -> impl Iterator<Item = &[u8]> {
    let written = room.get(DATA_HEAD..).unwrap_or_default();
    written.chunks_exact(elements.size.max(1)).take(elements.count)
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "tests may fail")]
mod tests {
    use super::*;

    const SIZE: usize = 232;
    const MOST: usize = 4;

    /// Subflows of a kernel, each by a byte of its address; its `struct tcp_info` repeats that byte.
    type Subflows = Vec<u8>;

    /// A kernel whose subflows are those of `then`, one after the other for each request about them.
    fn kernel(then: &[Subflows]) -> impl FnMut(i32, &mut [u8]) -> Result<usize, i32> {
        let mut asked = 0;
        move |name, room| {
            if name == MPTCP_INFO {
                room[..48].fill(7);
                return Ok(48);
            }
            let now = &then[asked.min(then.len() - 1)];
            asked += 1;
            assert_eq!(room[..12], [16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            let wanted = u32::from_ne_bytes([room[12], room[13], room[14], room[15]]) as usize;
            let own = if name == MPTCP_TCPINFO { SIZE } else { ADDRESSES };
            let size = wanted.min(own);
            let mut place = DATA_HEAD;
            for &byte in now.iter().take((room.len() - DATA_HEAD) / size) {
                room[place..place + size].fill(byte);
                place += size;
            }
            for (offset, value) in [(4, now.len()), (8, own), (12, size)] {
                room[offset..offset + 4].copy_from_slice(&(value as u32).to_ne_bytes());
            }
            Ok(place)
        }
    }

    /// Length of the header, stride of `struct tcp_info`, and the bytes of each subflow: address, state.
    fn assembled(then: &[Subflows]) -> (usize, usize, Vec<(u8, u8)>) {
        let (mut header, mut subflows) = ([0; FULL_INFO_HEADER + 128], [9; MOST * SUBFLOW_INFO]);
        let (mut tcp, mut spare) = ([9; MOST * 248], [9; DATA_HEAD + MOST * ADDRESSES]);
        let mut answer = Answer {
            header: &mut header,
            subflows: &mut subflows,
            tcp: &mut tcp,
            tcp_size: 248,
            spare: &mut spare,
        };
        let length = assemble(kernel(then), &mut answer).unwrap_or_default();
        let word = |offset: usize| header[offset] as usize;
        assert_eq!((word(12) + 256 * word(13), header[length - 1]), (SUBFLOW_INFO, 7));
        let found = (0..word(16)).map(|index| {
            let flow = &subflows[index * SUBFLOW_INFO..(index + 1) * SUBFLOW_INFO];
            let state = &tcp[index * word(4)..(index + 1) * word(4)];
            assert!(flow[..8] == [0; 8] && flow[8..] == [flow[8]; ADDRESSES]);
            assert!(state.iter().all(|byte| *byte == state[0]));
            (flow[8], state[0])
        });
        (length, word(4), found.collect())
    }

    #[test]
    fn subflows_get_their_state_at_the_kernels_stride() {
        let (length, stride, found) = assembled(&[vec![1, 2, 3]]);
        assert_eq!((length, stride), (FULL_INFO_HEADER + 48, SIZE));
        assert_eq!(found, [(1, 1), (2, 2), (3, 3)]);
        assert_eq!(assembled(&[vec![]]).2, []);
    }

    #[test]
    fn subflows_that_change_between_the_calls_are_read_again() {
        let gone = [vec![1, 2], vec![2], vec![2], vec![2]];
        assert_eq!(assembled(&gone).2, [(2, 2)]);
        let another_in_its_place = [vec![1, 2], vec![1, 3], vec![1, 3]];
        assert_eq!(assembled(&another_in_its_place).2, [(1, 1), (3, 3)]);
        let added_at_last = [vec![1], vec![1], vec![1, 2], vec![1, 2]];
        assert_eq!(assembled(&added_at_last).2, [(1, 1), (2, 2)]);
    }

    #[test]
    fn subflows_that_never_settle_do_not_hold_anybody_up() {
        let restless: Vec<_> = (0..100).map(|number| vec![1; 1 + number % 2]).collect();
        assert_eq!(assembled(&restless).2, [(1, 1)]);
    }

    #[test]
    fn more_subflows_than_there_is_room_for_are_left_out() {
        assert_eq!(assembled(&[vec![1, 2, 3, 4, 5, 6]]).2.len(), MOST);
    }

    #[test]
    fn an_error_of_the_kernel_is_passed_on() {
        let mut rooms = ([0; 168], [0; 264], [0; 248], [0; 272]);
        let mut answer = Answer {
            header: &mut rooms.0,
            subflows: &mut rooms.1,
            tcp: &mut rooms.2,
            tcp_size: 248,
            spare: &mut rooms.3,
        };
        assert_eq!(assemble(|_, _| Err(95), &mut answer), Err(95));
    }
}
