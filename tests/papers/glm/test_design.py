"""The coding of factors against columns written by hand, and designs that cannot be solved."""

import msgspec
import numpy as np
import pytest

from mptune.errors import InputError
from mptune.papers.glm.design import FORMS, Coding, Design, Term, check_design
from mptune.table import Measurement, Measurements


def measurements(*rows: tuple[float, float, dict[str, str]]) -> Measurements:
    return Measurements(
        path="data.csv",
        rows=tuple(
            Measurement(row=number, throughput_mbps=y, buffer_mib=b, levels=levels)
            for number, (y, b, levels) in enumerate(rows, start=2)
        ),
        factors=tuple(rows[0][2]),
    )


def test_the_last_level_is_the_reference_and_has_no_column() -> None:
    data = measurements((1.0, 2.0, {"cc": "vegas"}), (2.0, 4.0, {"cc": "olia"}), (3.0, 4.0, {"cc": "cubic"}))
    design = Design(data, Coding(data), FORMS["quadratic"])
    terms = [Term(None, 1), Term(None, 2), Term("cc", 0), Term("cc", 1)]
    assert design.labels(terms) == [
        "intercept",
        *("B", "B^2", "cc=cubic", "cc=olia", "B * cc=cubic", "B * cc=olia"),
    ]
    assert design.matrix(terms).tolist() == [
        [1, 2, 4, 0, 0, 0, 0],
        [1, 4, 16, 0, 1, 0, 4],
        [1, 4, 16, 1, 0, 4, 0],
    ]


@pytest.mark.parametrize(("form", "x"), [("logarithmic", np.log(4.0)), ("square-root", 2.0)])
def test_other_forms_transform_the_buffer(form: str, x: float) -> None:
    data = measurements((1.0, 4.0, {"cc": "a"}), (1.0, 4.0, {"cc": "a"}))
    assert Design(data, Coding(data), FORMS[form]).columns(Term(None, 1))[0, 0] == pytest.approx(x)


def test_a_factor_that_never_varies_is_none(simulate) -> None:
    data = simulate(lambda b, cc, path: b, noise=1.0, seed=1)
    one_path = msgspec.structs.replace(
        data, rows=tuple(row for row in data.rows if row.levels["initial_path"] == "U-U")
    )
    assert list(Coding(one_path).levels) == ["cc"]
    assert list(Coding(data, ignore=["cc"]).levels) == ["initial_path"]


def test_a_full_factorial_is_accepted(simulate) -> None:
    data = simulate(lambda b, cc, path: b, noise=1.0, seed=1)
    check_design(data, Coding(data))


def test_levels_that_go_together_are_refused_by_name(simulate) -> None:
    """Each congestion control on a path of its own: nobody can separate the two."""
    data = simulate(lambda b, cc, path: b, noise=1.0, seed=1)
    own = {"cubic": "U-U", "olia": "U-T", "vegas": "B-U"}
    rows = tuple(row for row in data.rows if row.levels["initial_path"] == own[row.levels["cc"]])
    tied = msgspec.structs.replace(data, rows=rows)
    with pytest.raises(
        InputError, match=r"data\.csv: initial_path: expected levels that vary independently of cc"
    ):
        check_design(tied, Coding(tied))
    check_design(tied, Coding(tied, ignore=["initial_path"]))


def test_a_level_with_one_buffer_size_is_refused_by_name(simulate) -> None:
    data = simulate(lambda b, cc, path: b, noise=1.0, seed=1)
    rows = tuple(row for row in data.rows if row.levels["cc"] != "olia" or row.buffer_mib == 28.0)
    few = msgspec.structs.replace(data, rows=rows)
    with pytest.raises(InputError, match="cc: expected at least two buffer sizes for 'olia', found only 28"):
        check_design(few, Coding(few))


def test_too_few_rows_are_counted(simulate) -> None:
    data = simulate(lambda b, cc, path: b, noise=1.0, seed=1, buffers=(1.0, 2.0))
    rows = tuple(row for row in data.rows if row.levels["initial_path"] == "U-U")
    few = msgspec.structs.replace(data, rows=rows)
    with pytest.raises(InputError, match="expected more than 6 usable rows for buffer, cc, found 6"):
        check_design(few, Coding(few))


def test_an_unknown_level_is_named_with_its_row(simulate) -> None:
    data = simulate(lambda b, cc, path: b, noise=1.0, seed=1)
    other = measurements((1.0, 2.0, {"cc": "bbr"}))
    with pytest.raises(
        InputError, match=r"data\.csv: row 2, cc: expected one of cubic, olia, vegas, found 'bbr'"
    ):
        Design(other, Coding(data), FORMS["linear"]).columns(Term("cc", 0))
