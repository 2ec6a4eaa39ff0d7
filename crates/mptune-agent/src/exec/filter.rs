//! System calls of a program that are stopped or answered at once, as a filter of seccomp (seccomp(2)).
//!
//! A stopped call costs some microseconds, so nothing is stopped but the making of a TCP socket. No system call is
//! made here.

/// Place of the call's number and of its architecture in `struct seccomp_data`, and of its first argument; each
/// of the six has eight bytes, of which these calls use the lower four. Both architectures are little-endian.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_AARCH64` (include/uapi/linux/audit.h).
#[cfg(target_arch = "x86_64")]
const OWN_ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OWN_ARCHITECTURE: u32 = 0xc000_00b7;

/// The kind of a socket without its flags (SOCK_TYPE_MASK in include/linux/net.h).
const KIND: u32 = 0xf;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const EQUALS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Options of TCP that only tune a connection and that MPTCP refuses (Linux 6.18): they are reported to the
/// program as set, because some end at once when they fail.
const FORGIVEN: [i32; 7] = [
    libc::TCP_SYNCNT,
    libc::TCP_LINGER2,
    libc::TCP_WINDOW_CLAMP,
    libc::TCP_QUICKACK,
    libc::TCP_THIN_LINEAR_TIMEOUTS,
    libc::TCP_THIN_DUPACK,
    libc::TCP_USER_TIMEOUT,
];

/// A number in the call's data, and its values that count.
struct Condition {
    at: u32,
    mask: u32,
    values: Vec<u32>,
}

impl Condition {
    fn number(call: libc::c_long) -> Self {
        Self { at: NUMBER, mask: u32::MAX, values: vec![call as u32] }
    }

    fn argument(place: u32, mask: u32, values: &[i32]) -> Self {
        let values = values.iter().map(|&value| value as u32).collect();
        Self { at: ARGUMENTS + 8 * place, mask, values }
    }
}

/// The filter. With `mptcp`, options that MPTCP does not have are reported as set.
pub fn program(mptcp: bool) -> Vec<libc::sock_filter> {
    let making = [
        Condition::number(libc::SYS_socket),
        Condition::argument(0, u32::MAX, &[libc::AF_INET, libc::AF_INET6]),
        Condition::argument(1, KIND, &[libc::SOCK_STREAM]),
        Condition::argument(2, u32::MAX, &[0, libc::IPPROTO_TCP]),
    ];
    let tuning = [
        Condition::number(libc::SYS_setsockopt),
        Condition::argument(1, u32::MAX, &[libc::IPPROTO_TCP]),
        Condition::argument(2, u32::MAX, &FORGIVEN),
    ];
    let mut program = vec![
        step(LOAD, ARCHITECTURE),
        jump(OWN_ARCHITECTURE, 1, 0),
        step(RETURN, libc::SECCOMP_RET_ALLOW),
    ];
    program.extend(rule(&making, libc::SECCOMP_RET_USER_NOTIF));
    if mptcp {
        program.extend(rule(&tuning, libc::SECCOMP_RET_ERRNO));
    }
    program.push(step(RETURN, libc::SECCOMP_RET_ALLOW));
    program
}

/// Ends with `verdict` if all conditions hold, otherwise goes on behind its last instruction.
fn rule(conditions: &[Condition], verdict: u32) -> Vec<libc::sock_filter> {
    let mut rule = vec![step(RETURN, verdict)];
    for condition in conditions.iter().rev() {
        let rest = rule.len() as u8;
        let mut before = vec![step(LOAD, condition.at), step(AND, condition.mask)];
        let last = condition.values.len() - 1;
        before.extend(condition.values.iter().enumerate().map(|(place, &value)| {
            jump(value, (last - place) as u8, if place == last { rest } else { 0 })
        }));
        before.append(&mut rule);
        rule = before;
    }
    rule
}

fn step(code: u32, operand: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: operand }
}

fn jump(value: u32, equal: u8, other: u8) -> libc::sock_filter {
    libc::sock_filter { code: EQUALS as u16, jt: equal, jf: other, k: value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{
        AF_INET, AF_INET6, AF_UNIX, IPPROTO_TCP, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK,
        SOCK_STREAM,
    };

    /// The kernel's behaviour: the filter's verdict on a call.
    fn verdict(mptcp: bool, architecture: u32, call: libc::c_long, arguments: [i32; 3]) -> u32 {
        let mut data = vec![call as u32, architecture, 0, 0];
        // The upper halves, which the calls do not use, are garbage.
        arguments.iter().for_each(|&value| data.extend([value as u32, 0xdead_beef]));
        let program = program(mptcp);
        let (mut at, mut held) = (0, 0);
        loop {
            let instruction = &program[at];
            at += 1;
            match u32::from(instruction.code) {
                LOAD => held = data[instruction.k as usize / 4],
                AND => held &= instruction.k,
                EQUALS => {
                    at += usize::from(if held == instruction.k {
                        instruction.jt
                    } else {
                        instruction.jf
                    })
                }
                RETURN => return instruction.k,
                code => panic!("an instruction that is not used: {code}"),
            }
        }
    }

    #[test]
    fn only_the_making_of_a_tcp_socket_is_stopped() {
        let made = |arguments| verdict(true, OWN_ARCHITECTURE, libc::SYS_socket, arguments);
        for domain in [AF_INET, AF_INET6] {
            for protocol in [0, IPPROTO_TCP] {
                for flags in [0, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC] {
                    let stopped = made([domain, SOCK_STREAM | flags, protocol]);
                    assert_eq!(stopped, libc::SECCOMP_RET_USER_NOTIF);
                }
            }
        }
        for untouched in [
            [AF_UNIX, SOCK_STREAM, 0],
            [AF_INET, SOCK_DGRAM, 0],
            [AF_INET, SOCK_STREAM, libc::IPPROTO_SCTP],
            [AF_INET6, SOCK_STREAM, 262],
        ] {
            assert_eq!(made(untouched), libc::SECCOMP_RET_ALLOW);
        }
    }

    #[test]
    fn other_calls_and_other_architectures_go_their_way() {
        let tcp = [AF_INET, SOCK_STREAM, 0];
        let allowed = libc::SECCOMP_RET_ALLOW;
        assert_eq!(verdict(true, 0x4000_0003, libc::SYS_socket, tcp), allowed);
        assert_eq!(verdict(true, OWN_ARCHITECTURE, libc::SYS_connect, tcp), allowed);
    }

    #[test]
    fn options_that_mptcp_lacks_are_reported_as_set() {
        let set = |mptcp, level, name| {
            verdict(mptcp, OWN_ARCHITECTURE, libc::SYS_setsockopt, [9, level, name])
        };
        for name in FORGIVEN {
            assert_eq!(set(true, IPPROTO_TCP, name), libc::SECCOMP_RET_ERRNO);
            assert_eq!(set(false, IPPROTO_TCP, name), libc::SECCOMP_RET_ALLOW);
            assert_eq!(set(true, libc::SOL_SOCKET, name), libc::SECCOMP_RET_ALLOW);
        }
        assert_eq!(set(true, IPPROTO_TCP, libc::TCP_NODELAY), libc::SECCOMP_RET_ALLOW);
        assert_eq!(set(true, IPPROTO_TCP, libc::TCP_CONGESTION), libc::SECCOMP_RET_ALLOW);
    }
}
