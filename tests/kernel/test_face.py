"""The Python face on this machine's kernel: a trial, the comparison, and an error that arises there."""

import pytest

import mptune
from tests.plugins.reruns import spoiled

pytestmark = pytest.mark.usefixtures("testbed")


@pytest.mark.measures("two trials, which an overloaded machine refuses")
def test_simulator_and_kernel_are_compared(two, tmp_path):
    compared = mptune.compare(two, cc="reno,cubic", buffers="1MiB", duration="2s")
    for row in compared.comparison.rows:
        reason = row.kernel.reason or ""
        if "overloaded" in reason:
            spoiled(reason)
    table = compared.frame()
    assert table["cc"].tolist() == ["reno", "cubic"] and set(table["buffer_bytes"]) == {2**20}
    capacity_mbps = 60
    assert table[["simulated_mbps", "kernel_mbps"]].gt(0).all(axis=None)
    assert table[["simulated_mbps", "kernel_mbps"]].lt(1.1 * capacity_mbps).all(axis=None)
    ratio = table["simulated_mbps"] / table["kernel_mbps"]
    assert table["error"].tolist() == pytest.approx((ratio - 1).tolist())
    assert two.name in repr(compared) and compared._repr_html_().count("<tr") == 3
    compared.chart().save(tmp_path / "agreement.svg")
    assert (tmp_path / "agreement.svg").stat().st_size


def test_an_error_of_the_kernels_testbed_names_the_keyword(two):
    with pytest.raises(mptune.InputError) as caught:
        mptune.run(two, buffer="2GiB", buffer_mode="auto", duration="1s", testbed="namespaces")
    assert caught.value.where == "buffer" and "--" not in str(caught.value)
