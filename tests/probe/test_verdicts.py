"""The fate of MPTCP, from what both ends saw."""

import pytest

from mptune.probe.verdicts import Tried, verdict

PLAIN = Tried(connected=True, data=True)
NOTHING = Tried(connected=False, failed="time-out")
WHOLE = Tried(connected=True, data=True, at_handshake=True, near=True, far=True, syn_ack="mptcp")


@pytest.mark.parametrize(
    ("mptcp", "plain", "joined", "kind"),
    [
        (WHOLE, PLAIN, True, "full"),
        (WHOLE, PLAIN, None, "full"),
        (WHOLE, PLAIN, False, "joins refused"),
        (NOTHING, NOTHING, None, "unreachable"),
        (NOTHING, PLAIN, None, "blocked"),
        (Tried(connected=True, failed="reset"), PLAIN, None, "blocked"),
        (Tried(connected=True, data=True, syn_ack="plain"), PLAIN, None, "stripped on SYN"),
        (Tried(connected=True, data=True), PLAIN, None, "stripped on SYN"),
        (Tried(connected=True, data=True, at_handshake=True), PLAIN, None, "stripped later"),
        (Tried(connected=True, data=True, syn_ack="mptcp"), PLAIN, None, "stripped later"),
        (Tried(connected=True, data=True, syn_ack="mirrored"), PLAIN, None, "mirrored"),
        # The sender believes in MPTCP, the receiver never saw it.
        (Tried(connected=True, data=True, at_handshake=True, near=True), PLAIN, None, "mirrored"),
        # One end fell back: the other one's word is not enough.
        (Tried(connected=True, data=True, at_handshake=True, far=True), PLAIN, True, "stripped later"),
    ],
)
def test_kinds(mptcp, plain, joined, kind):
    assert verdict(mptcp, plain, joined, None).kind == kind


def test_an_end_without_mptcp_is_not_the_path_s_fault():
    judged = verdict(PLAIN, PLAIN, None, "alice: no MPTCP here")
    assert (judged.kind, judged.because) == ("unsupported", "alice: no MPTCP here")
    assert verdict(NOTHING, NOTHING, None, "alice: no MPTCP here").kind == "unreachable"


def test_a_join_that_was_not_tried_is_reported():
    assert "not tried" in verdict(WHOLE, PLAIN, None, None).because


def test_data_that_do_not_pass_after_a_handshake_are_distinguished_from_no_handshake():
    stuck = Tried(connected=True, failed="time-out")
    judged = verdict(stuck, stuck, None, None)
    assert (judged.kind, judged.because.count("with the first data")) == ("unreachable", 2)
    assert "first data" not in verdict(NOTHING, NOTHING, None, None).because
