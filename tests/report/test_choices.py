"""The positions of the slider: the answer among them, and the text of each."""

import msgspec

from mptune.report.choices import choices
from mptune.result.answer import Answer, FrontRow
from mptune.result.run_data import RunData


def row(sacrifice: float, buffer: float, pm: str = "pcdc", cc: str = "cubic") -> FrontRow:
    return FrontRow(
        sacrifice=sacrifice,
        pm=pm,
        cc=cc,
        buffer_mib=buffer,
        buffer_mib_low=0.8,
        buffer_mib_high=1.2,
        throughput_mbps=100 * (1 - sacrifice),
        throughput_mbps_low=90.0,
        throughput_mbps_high=99.0,
    )


def answered(run: RunData, front: tuple[FrontRow, ...], **changes: object) -> RunData:
    assert run.answer is not None
    answer: Answer = msgspec.structs.replace(run.answer, pareto=front, **changes)
    return msgspec.structs.replace(run, answer=answer)


def test_the_answer_is_where_its_sacrifice_begins_to_hold(optimised: RunData) -> None:
    """With 7 % asked for, the front's point of 4 % holds until the next one, of 9 %."""
    front = (row(0.0, 9.0), row(0.04, 4.0), row(0.09, 2.0))
    run = answered(optimised, front, opm="pcdc", occ="cubic", obs_mib=4.0, sacrifice=0.07)
    offered = choices(run)
    assert [choice.buffer_mib for choice in offered.all] == [9.0, 4.0, 2.0]
    assert offered.answer == 1
    assert run.answer is not None
    assert offered.all[1].sentence == run.answer.answer[0]
    assert offered.all[1].prediction is None and offered.all[1].sacrifice.startswith(
        "up to 7 %, as requested"
    )


def test_an_answer_off_the_front_has_a_position_of_its_own(optimised: RunData) -> None:
    """As the literal reading of MPCOA Eq. 11 may give one."""
    front = (row(0.0, 9.0), row(0.05, 4.0), row(0.09, 2.0))
    run = answered(optimised, front, opm="fullmesh", occ="reno", obs_mib=5.0, sacrifice=0.07)
    offered = choices(run)
    assert [choice.buffer_mib for choice in offered.all] == [9.0, 4.0, 5.0, 2.0]
    assert offered.answer == 2


def test_other_choices_have_what_to_set_and_what_to_expect(optimised: RunData) -> None:
    front = (row(0.0, 1.0001), row(0.07, 0.5, "fullmesh", "reno"))
    offered = choices(answered(optimised, front, opm="fullmesh", occ="reno", obs_mib=0.5, sacrifice=0.07))
    best = offered.all[0]
    carrying = ", ".join(optimised.impact[0].optional)
    assert best.sentence.startswith(
        f"{optimised.name}, for Linux 6.18's MPTCP: use path manager pcdc with cubic, send on {carrying}"
    )
    assert best.sentence.endswith("set the buffer to 1025 KiB.")
    assert best.sacrifice == "0 %"
    assert best.prediction is not None
    assert "predicts 100.0 Mbit/s (90.00 to 99.00)" in best.prediction
    assert "In 95 % of the resamples it needed 0.800 to 1.20 MiB." in best.prediction
    assert best.prediction.endswith("It was not confirmed; the recommended choice was.")


def test_limits_of_growing_buffers_are_set_by_sysctl(optimised: RunData) -> None:
    front = (row(0.0, 1.0001), row(0.07, 0.5))
    run = answered(optimised, front, buffer_mode="auto", opm="pcdc", occ="cubic", obs_mib=0.5, sacrifice=0.07)
    sentence = choices(run).all[0].sentence
    assert sentence.endswith("set the limits of tcp_rmem and tcp_wmem to 1025 KiB (1049600 bytes).")


def test_over_ipv6_every_choice_names_the_family(optimised: RunData) -> None:
    run = answered(optimised, (row(0.0, 1.0), row(0.07, 0.5)), family="ipv6", opm="pcdc", obs_mib=0.5)
    assert ", for Linux 6.18's MPTCP over IPv6: use path manager" in choices(run).all[0].sentence


def test_fullmesh_sends_on_every_path(optimised: RunData) -> None:
    front = (row(0.0, 1.0, "fullmesh"), row(0.07, 0.5))
    offered = choices(answered(optimised, front, opm="pcdc", occ="cubic", obs_mib=0.5, sacrifice=0.07))
    assert "send on P-D, T-D," in offered.all[0].sentence


def test_a_label_stands_where_there_is_room(optimised: RunData) -> None:
    front = (row(0.0, 9.0), row(0.07, 2.0))
    offered = choices(answered(optimised, front, opm="pcdc", occ="cubic", obs_mib=2.0, sacrifice=0.07))
    assert [mark["side"] for mark in offered.marks(lambda size: size / 10)] == ["right", "left"]
    assert [mark["side"] for mark in offered.marks(lambda size: 0.5)] == ["center", "center"]
    assert offered.marks(lambda size: 1.0, "fullmesh") == []


def test_a_sweep_has_no_choices(transfers: RunData) -> None:
    assert choices(transfers).all == ()
