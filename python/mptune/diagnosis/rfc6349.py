"""The figures of RFC 6349, each formula in one function under its section's number.

The RFC measures one TCP connection; for several subflows its figures are taken over all of them together.
"""

#: Bytes of the headers of IPv4 and TCP without options (section 4.1.1, "MTU - 40").
_HEADERS = 40


def bandwidth_delay_product_bits(rate_bps: float, rtt_s: float) -> float:
    """Section 3.2.2: BDP (bits) = RTT (s) x bottleneck bandwidth (bit/s)."""
    return rtt_s * rate_bps


def least_window_bytes(rate_bps: float, rtt_s: float) -> float:
    """Section 3.2.2: minimum TCP RWND (bytes) = BDP / 8."""
    return bandwidth_delay_product_bits(rate_bps, rtt_s) / 8


def achievable_bps(rate_bps: float, mtu_bytes: int = 1500, options_bytes: int = 0) -> float:
    """Section 4.1.1: maximum achievable TCP throughput, (MTU - 40) x 8 x packets per second.

    Parameters
    ----------
    rate_bps : of the bottleneck, counted at the network layer: packets per second are rate / MTU.
    options_bytes : of TCP's options in every packet, which the RFC neglects.
    """
    packets_per_s = rate_bps / (8 * mtu_bytes)
    return (mtu_bytes - _HEADERS - options_bytes) * 8 * packets_per_s


def transfer_time_ratio(actual_s: float, ideal_s: float) -> float:
    """Section 4.1: TCP transfer time ratio = actual transfer time / ideal transfer time (1 is ideal)."""
    return actual_s / ideal_s


def efficiency_percent(transmitted_bytes: float, retransmitted_bytes: float) -> float:
    """Section 4.2: TCP efficiency = (transmitted - retransmitted) / transmitted x 100."""
    return 100 * (transmitted_bytes - retransmitted_bytes) / transmitted_bytes


def buffer_delay_percent(loaded_rtt_s: float, baseline_rtt_s: float) -> float:
    """Section 4.3: buffer delay = (average RTT during transfer - baseline RTT) / baseline RTT x 100."""
    return 100 * (loaded_rtt_s - baseline_rtt_s) / baseline_rtt_s
