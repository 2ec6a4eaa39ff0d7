"""The rule of verdicts: borders of every kind of statement, and the claim's verdict from its statements."""

import pytest

from mptune.papers.measure import Answered, Claim, Factors, Point, Statement, Values, judge
from mptune.papers.measure.rule import by_change, direction
from mptune.trial import Bulk, Configuration
from mptune.units import MIB


def point(name: str, printed: float | None = None, *, pm="fullmesh", cc="cubic", buffer=MIB) -> Point:
    workload = Bulk(duration_ns=10**9)
    configuration = Configuration(pm=pm, cc=cc, buffer_bytes=buffer, workload=workload)
    return Point(name=name, scenario="UNIS-HiN", configuration=configuration, printed=printed)


def claim(*statements: Statement, points=(), factors=()) -> Claim:
    return Claim(
        id="a",
        paper="mpcoa",
        figures=("fig-1",),
        section="5",
        words="",
        part="judge",
        statements=statements,
        points=tuple(points),
        factors=tuple(factors),
    )


def verdict(statement: Statement, runs: dict[str, list[float]], points) -> str:
    (judged,) = judge(claim(statement, points=points), Values(runs=runs)).statements
    return judged.verdict


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (100, "agrees"),
        (125, "agrees"),
        (80, "agrees"),
        (126, "half"),
        (200, "half"),
        (50, "half"),
        (201, "disagrees"),
        (0, "disagrees"),
    ],
)
def test_a_level_is_judged_by_its_factor(measured: float, expected: str) -> None:
    statement = Statement(words="", rule="level", of=("a",))
    assert verdict(statement, {"a": [measured]}, [point("a", 100.0)]) == expected


def test_of_several_levels_errors_of_both_signs_do_not_cancel() -> None:
    statement = Statement(words="", rule="level", of=("a", "b"))
    points = [point("a", 100.0), point("b", 100.0)]
    assert verdict(statement, {"a": [50.0], "b": [200.0]}, points) == "half"
    assert verdict(statement, {"a": [40.0], "b": [250.0]}, points) == "disagrees"


@pytest.mark.parametrize(
    ("measured", "printed", "expected"),
    [
        (1.0, 1.04, "agrees"),  # neither has a direction
        (1.06, 1.1165, "agrees"),  # the logarithm is half of the printed one
        (1.2, 1.1165, "agrees"),
        (1.3, 1.1165, "half"),  # right direction, too large
        (1.02, 1.1165, "half"),  # no direction, and the printed change is small
        (1.02, 1.3, "disagrees"),
        (0.9, 1.1165, "disagrees"),
        (0.9, 1.0, "half"),
        (0.7, 1.0, "disagrees"),
        (2.0, 1.724, "agrees"),
        (0.69, 36.9 / 77.2, "agrees"),
    ],
)
def test_a_change_is_judged_by_direction_and_size(measured: float, printed: float, expected: str) -> None:
    assert by_change(measured, printed) == expected
    assert by_change(1 / measured, 1 / printed) == expected


def test_changes_below_a_twentieth_have_no_direction() -> None:
    assert [direction(ratio) for ratio in (1.04, 1 / 1.04, 1.06, 1 / 1.06)] == [0, 0, 1, -1]


@pytest.mark.parametrize(("measured", "expected"), [(2.0, "agrees"), (1.02, "half"), (0.5, "disagrees")])
def test_a_printed_direction_is_judged_as_such(measured: float, expected: str) -> None:
    statement = Statement(words="", rule="ratio", of=("a",), against=("b",), printed="more")
    assert verdict(statement, {"a": [measured], "b": [1.0]}, [point("a"), point("b")]) == expected


def test_a_change_uses_the_points_own_numbers() -> None:
    statement = Statement(words="", rule="ratio", of=("a",), against=("b",))
    points = [point("a", 242.4), point("b", 217.1)]
    assert verdict(statement, {"a": [112.0, 114.0], "b": [100.0]}, points) == "agrees"


@pytest.mark.parametrize(
    ("behind", "expected"), [(1.0, "agrees"), (1.04, "agrees"), (1.2, "half"), (1.3, "disagrees")]
)
def test_the_best_may_be_a_little_behind(behind: float, expected: str) -> None:
    statement = Statement(words="", rule="best", of=("a", "b", "c"))
    runs = {"a": [10.0], "b": [10.0 * behind], "c": [1.0]}
    assert verdict(statement, runs, [point("a"), point("b"), point("c")]) == expected


def test_even_points_are_within_a_quarter() -> None:
    statement = Statement(words="", rule="even", of=("a", "b"))
    points = [point("a"), point("b")]
    measured = [verdict(statement, {"a": [10.0], "b": [value]}, points) for value in (12.5, 19.0, 21.0)]
    assert measured == ["agrees", "half", "disagrees"]


def test_a_peak_at_a_small_buffer_is_no_practical_size() -> None:
    runs = {"1": [90.0], "2": [28.0], "4": [80.0], "8": [89.0], "16": [90.0]}
    points = [point(name, buffer=int(name) * MIB) for name in runs]
    statement = Statement(words="", rule="size", of=tuple(runs), printed=float(8 * MIB))
    (judged,) = judge(claim(statement, points=points), Values(runs=runs)).statements
    assert judged.measured == "8 MiB"


def test_a_size_is_judged_in_octaves() -> None:
    sizes = [1, 2, 4, 8, 16]
    points = [point(f"{size}", buffer=size * MIB) for size in sizes]
    runs = {f"{size}": [min(10.0, 2.5 * size)] for size in sizes}  # all of it from 4 MiB on
    verdicts = [
        verdict(Statement(words="", rule="size", of=tuple(runs), printed=float(size * MIB)), runs, points)
        for size in (4, 8, 16, 32)
    ]
    assert verdicts == ["agrees", "agrees", "half", "disagrees"]


@pytest.mark.parametrize(("rule", "expected"), [("factors", "agrees"), ("set", "half")])
def test_factors_near_zero_are_one_class_and_two_sets(rule, expected: str) -> None:
    printed = {"U-U": 0.9, "U-B": -0.04, "T-U": 0.01, "T-B": -0.2}
    measured = {"U-U": 0.4, "U-B": 0.02, "T-U": -0.01, "T-B": -0.1}
    factors = Factors(
        name="f", scenario="UNIS-HiN", cc="cubic", window_ns=10**9, buffer_bytes=MIB, printed=printed
    )
    statement = Statement(words="", rule=rule, of=("f",))
    (judged,) = judge(
        claim(statement, factors=[factors]), Values(runs={}, factors={"f": measured})
    ).statements
    assert judged.verdict == expected


def test_a_printed_minus_zero_is_standby() -> None:
    factors = Factors(
        name="f", scenario="UNIS-HiN", cc="cubic", window_ns=10**9, buffer_bytes=MIB, printed={"U-U": -0.0}
    )
    statement = Statement(words="", rule="set", of=("f",))
    for omega, expected in ((-0.01, "agrees"), (0.01, "disagrees")):
        values = Values(runs={}, factors={"f": {"U-U": omega}})
        (judged,) = judge(claim(statement, factors=[factors]), values).statements
        assert judged.verdict == expected


def quadratic(best: float) -> tuple[list[Point], dict[str, list[float]]]:
    """Two combinations with parabolas over the buffer: 10 and `best` times one with its maximum at 10 MiB."""
    points, runs = [], {}
    for pm, factor in (("fullmesh", 10.0), ("pcdc", best)):
        for size in (1, 4, 7, 10, 13):
            name = f"{pm} {size}"
            points.append(point(name, pm=pm, buffer=size * MIB))
            runs[name] = [factor * (1 - ((size - 10) / 10) ** 2)]
    return points, runs


def answered(best: float) -> Values:
    return Values(
        runs={},
        answers={
            "a": Answered(
                maxima_mbps={"FullMesh/cubic": 10.0, "PCDC/cubic": best},
                chosen="PCDC/cubic",
                buffer_bytes=5 * MIB,
                throughput_mbps=0.93 * best,
            )
        },
    )


@pytest.mark.parametrize(("best", "expected"), [(10.2, "agrees"), (12.0, "half"), (14.0, "disagrees")])
def test_the_chosen_combination_may_be_a_little_behind(best: float, expected: str) -> None:
    statement = Statement(words="", rule="chosen", of=("a",), printed="FullMesh/cubic")
    (judged,) = judge(claim(statement), answered(best)).statements
    assert judged.verdict == expected


def test_the_answer_is_judged_by_its_size_and_throughput() -> None:
    statements = (
        Statement(words="", rule="chosen size", of=("a",), printed=2.5 * MIB),
        Statement(words="", rule="chosen throughput", of=("a",), printed=9.0),
        Statement(words="", rule="chosen size", of=("b",), printed=2.5 * MIB),
    )
    size, throughput, missing = judge(claim(*statements), answered(20.0)).statements
    assert (size.printed, size.measured, size.verdict) == ("2.5 MiB", "5 MiB", "agrees")
    assert (throughput.measured, throughput.verdict) == ("18.6 Mbit/s", "disagrees")
    assert (missing.measured, missing.verdict) == ("nothing: there is no answer", "disagrees")


@pytest.mark.parametrize(("printed", "expected"), [(0.94, "agrees"), (0.80, "half")])
def test_an_explained_share_is_judged_by_the_papers_border(printed: float, expected: str) -> None:
    points, runs = quadratic(20.0)
    noisy = {name: [value * 0.95, value * 1.05] for name, (value,) in runs.items()}
    statement = Statement(words="", rule="explained", of=tuple(runs), printed=printed)
    assert verdict(statement, noisy, points) == expected


@pytest.mark.parametrize(
    ("measured", "expected"),
    [((100, 100), "agrees"), ((100, 150), "agrees"), ((100, 500), "half"), ((150, 500), "disagrees")],
)
def test_a_claim_has_the_mean_of_its_statements(measured: tuple[float, float], expected: str) -> None:
    names = ("a", "b")
    statements = [Statement(words="", rule="level", of=(name,)) for name in names]
    points = [point(name, 100.0) for name in names]
    runs = {name: [float(value)] for name, value in zip(names, measured, strict=True)}
    assert judge(claim(*statements, points=points), Values(runs=runs)).verdict == expected


def test_without_a_trial_a_statement_disagrees_with_that_reason() -> None:
    statement = Statement(words="", rule="level", of=("a",))
    (judged,) = judge(claim(statement, points=[point("a", 1.0)]), Values(runs={"a": []})).statements
    assert (judged.verdict, judged.measured) == ("disagrees", "nothing: every trial of a failed")
