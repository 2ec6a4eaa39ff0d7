"""Random loss of a path for which single-path TCP reaches a published throughput.

Used for writing topology files: the papers publish RTTs and throughputs of long paths, but no loss rates. A
loss found this way is an assumption, and its reason begins with "from the response function". It is a
steady-state mean for independent losses, without queues, slow start and receive windows.
"""

from math import sqrt

#: Payload of a full segment, bytes: 1500 less IP and TCP headers with timestamps.
SEGMENT_BYTES = 1448
#: Its IP packet, bytes.
PACKET_BYTES = 1500

#: Multiplicative decrease and scaling constant of Cubic (RFC 9438, sections 4.6 and 5).
_BETA, _C = 0.7, 0.4
#: Linux's floor under the RTT variance in the retransmission timeout, s.
_MIN_RTO_S = 0.2


def throughput_bps(loss: float, rtt_s: float, cc: str) -> float:
    """Payload throughput of one long TCP flow over a path with random loss, bit/s.

    Parameters
    ----------
    loss : probability of losing a packet, in (0, 1).
    rtt_s : round-trip time, s.
    cc : "reno" or "cubic".

    Notes
    -----
    RFC 5348 section 3.1 with b = 1 (Linux counts acknowledged segments, not ACKs): every segment costs
    its share of a round trip, RTT / window, and of the timeouts. Reno's window is sqrt(3 / 2p), so
    without timeouts MSS / RTT * 1.22 / sqrt(p); Cubic's is that of RFC 9438 section 5.1, but never
    below Reno's (the Reno-friendly region, section 4.3).
    """
    window = sqrt(1.5 / loss)
    if cc == "cubic":
        window = max(window, (_C * (3 + _BETA) / (4 * (1 - _BETA)) * (rtt_s / loss) ** 3) ** 0.25)
    timeouts = (rtt_s + _MIN_RTO_S) * min(1.0, 3 * sqrt(3 * loss / 8)) * loss * (1 + 32 * loss**2)
    return 8 * SEGMENT_BYTES / (rtt_s / window + timeouts)


def loss_for(target_bps: float, rtt_s: float, cc: str) -> float:
    """Loss probability at which `throughput_bps` is `target_bps`: its inverse, by bisection."""
    low, high = 1e-12, 1.0
    while high / low > 1 + 1e-9:
        middle = sqrt(low * high)
        if throughput_bps(middle, rtt_s, cc) > target_bps:
            low = middle
        else:
            high = middle
    return sqrt(low * high)


def link_rate_bps(payload_bps: float) -> float:
    """Smallest link rate that carries a payload throughput in full segments, bit/s."""
    return payload_bps * PACKET_BYTES / SEGMENT_BYTES
