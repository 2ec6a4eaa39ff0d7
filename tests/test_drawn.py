"""The drawn set of benchmarks/fidelity/throughput.py: the draw, the kernel's kept results, the figures."""

import importlib
import json
import math
import os
import subprocess
import sys
from collections import Counter
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest

from mptune.decision.kinds import product_bytes, total_bps
from mptune.errors import Failure
from mptune.linux import congestion, doctor
from mptune.linux.sandbox import leftovers
from mptune.runner.progress import Reporter
from mptune.testbeds import Testbed, create, names
from mptune.testbeds.namespaces import NamespacesTestbed
from mptune.topology import load
from mptune.trial import BIN_NS, SENDER, Bulk, Observation

BENCHMARKS = str(Path(__file__).parent.parent / "benchmarks")
SECOND = 10**9
#: As many networks as a report has.
NUMBER = 24


@pytest.fixture
def drawing():
    return importlib.import_module("benchmarks.fidelity._drawn")


@pytest.fixture
def kept():
    return importlib.import_module("benchmarks.fidelity._drawn_kernel")


@pytest.fixture
def reporting():
    return importlib.import_module("benchmarks.fidelity._drawn_report")


@pytest.fixture
def drawn(drawing, tmp_path):
    """A whole draw."""
    return list(drawing.networks(5, NUMBER, 8, 10 * SECOND, tmp_path / "drawn"))


@pytest.fixture
def cases(drawn):
    return [case for network in drawn for case in network.cases]


def counted(cases, factor):
    return Counter(value for case in cases for value in case.factors[factor])


class TestTheDraw:
    def test_a_seed_gives_one_draw_in_every_process(self, tmp_path):
        """Also where hashes differ, which they do from process to process."""
        program = (
            "import sys, pathlib; from benchmarks.fidelity import _drawn; folder = pathlib.Path(sys.argv[1]);"
            "drawn = list(_drawn.networks(5, 8, 8, 10**10, folder));"
            "print([case.trial for network in drawn for case in network.cases]);"
            "print([file.read_text() for file in sorted(folder.iterdir())])"
        )
        seen = set()
        for hashing in ("1", "2"):
            environment = os.environ | {"PYTHONHASHSEED": hashing, "PYTHONPATH": os.pathsep.join(sys.path)}
            done = subprocess.run(
                [sys.executable, "-c", program, str(tmp_path / hashing)],
                env=environment,
                capture_output=True,
                check=True,
            )
            seen.add(blake2b(done.stdout).hexdigest())
        assert len(seen) == 1

    def test_a_larger_draw_begins_with_the_smaller_one(self, drawing, drawn, tmp_path):
        few = list(drawing.networks(5, 7, 8, 10 * SECOND, tmp_path / "few"))
        assert [network.cases for network in few] == [network.cases for network in drawn[:7]]

    def test_sizes_of_the_sender_alone_come_after_the_same_others(self, drawing, drawn, tmp_path):
        further = list(drawing.networks(5, NUMBER, 8, 10 * SECOND, tmp_path / "further", senders=2))
        assert [network.cases[:8] for network in further] == [network.cases for network in drawn]
        alone = [case for network in further for case in network.cases[8:]]
        assert len(alone) == 2 * NUMBER and counted(alone, "buffer mode") == {SENDER: 2 * NUMBER}
        assert set(counted(alone, "congestion control")) == set(drawing.CCS)
        for case in alone:
            assert case.trial.sized == SENDER
            assert case.trial.receive_buffer_bytes >= max(drawing.RECEIVE_BUFFER, case.trial.buffer_bytes)

    def test_other_seeds_give_other_networks(self, drawing, drawn, tmp_path):
        other = next(drawing.networks(6, 1, 8, 10 * SECOND, tmp_path / "other"))
        assert other.topology.network() != drawn[0].topology.network()

    def test_the_file_of_a_network_is_all_there_is(self, drawn):
        for network in drawn:
            assert load(network.file) == network.topology

    def test_half_of_the_networks_are_plain(self, drawn):
        """Drop-tail queues and fixed delays alone."""
        plain = [network for network in drawn if network.cases[0].factors["effects"] == ("plain",)]
        assert len(plain) == NUMBER // 2
        for network in plain:
            assert not network.topology.background
            for link in network.topology.links:
                assert not link.jitter_ns and not link.loss_ppb
                assert link.effects == type(link.effects)()

    def test_every_regime_is_covered_alike(self, drawing, cases):
        """Decks are dealt to their end before they are shuffled again."""
        for factor, values, dealt in (
            ("congestion control", drawing.CCS, 1),
            ("buffer mode", drawing.MODES, 1),
            ("path manager", drawing.PMS, 1),
            ("sent", ("transfer", *("saturated",) * 7), 1),
            ("bottlenecks", drawing.BOTTLENECKS, 8),
            ("paths", ("2", "2", "3 or 4", "3 or 4", "5 to 8", "5 to 8"), 8),
        ):
            counts = counted(cases, factor)
            assert set(counts) == set(values), factor
            for value, cards in Counter(values).items():
                exact = len(cases) * cards / len(values)
                assert abs(counts[value] - exact) < dealt * len(values), (factor, value)
        losses = counted(cases, "loss")
        assert losses == {"none": 120, "light": 24, "heavy": 24, "burst": 24}
        assert set(drawing.CCS) == set(names("congestion_controls"))

    def test_buffers_fill_their_regimes(self, drawing, drawn, cases):
        """A tenth of the product to eight times that; not below the least where that is more."""
        counts = counted(cases, "buffer")
        assert set(counts) == set(drawing.REGIMES)
        assert all(abs(number - len(cases) / 4) <= 4 for number in counts.values())
        for network in drawn:
            product = product_bytes(network.topology)
            for case in network.cases:
                size = case.trial.buffer_bytes
                assert size >= drawing.LEAST_BUFFER and size % 1024 == 0
                assert 0.1 - 1024 / product <= size / product <= 8

    def test_congestion_controls_meet_every_regime_of_the_buffer(self, drawing, tmp_path):
        """Two decks that went together would show one by the other."""
        together: Counter[str] = Counter()
        for network in drawing.networks(3, 88, 8, SECOND, tmp_path):
            for case in network.cases:
                together[case.factors["congestion control"] + case.factors["buffer"]] += 1
        expected = 88 * 8 / (len(drawing.CCS) * len(drawing.REGIMES))
        assert len(together) == len(drawing.CCS) * len(drawing.REGIMES)
        assert all(0.3 * expected < number < 2 * expected for number in together.values())

    def test_the_emulator_can_carry_them(self, drawing, drawn):
        for network in drawn:
            assert 0 < total_bps(network.topology) <= drawing.MOST_BPS
            assert 2 <= len(network.topology.paths) <= 8

    def test_all_effects_come_up(self, drawing, tmp_path):
        counts: Counter[str] = Counter()
        for network in drawing.networks(1, 100, 1, SECOND, tmp_path):
            counts.update(network.cases[0].factors["effects"])
            links = network.topology.links
            effects = [link.effects for link in links]
            counts["real jitter"] += any(link.jitter_ns for link in links)
            counts["real discipline"] += any(effect.aqm is not None for effect in effects)
            counts["real reorder"] += any(effect.reorder is not None for effect in effects)
            counts["real duplicate"] += any(effect.duplicate_ppb for effect in effects)
            counts["real bucket"] += any(effect.bucket is not None for effect in effects)
            counts["real schedule"] += any(effect.schedule is not None for effect in effects)
            counts["real trace"] += any(effect.trace_ms is not None for effect in effects)
            counts["real udp"] += bool(network.topology.background)
            counts["real burst"] += any(effect.gilbert_elliott is not None for effect in effects)
        assert set(counts) >= {*drawing.EFFECTS, *(f"real {name}" for name in drawing.EFFECTS)}
        assert counts["real burst"] > 0
        for name in drawing.EFFECTS:
            assert 0 < counts[f"real {name}"] == counts[name]

    def test_losses_are_of_their_class(self, drawing, tmp_path):
        for network in drawing.networks(1, 60, 1, SECOND, tmp_path):
            (loss,) = network.cases[0].factors["loss"]
            worst = max(path.loss_ppb for path in network.topology.paths)
            bounds = drawing.LOSS_PPB | {"none": (0, 0), "burst": drawing.BURST_PPB}
            low, high = bounds[loss]
            assert 0.5 * low <= worst <= 1.1 * high

    @pytest.mark.needs("linux")
    def test_the_kernels_testbed_takes_every_case(self, cases, monkeypatch):
        """Where the kernel has all congestion controls."""
        monkeypatch.setattr(leftovers, "end_strays", lambda: None)
        monkeypatch.setattr(doctor, "obstacle", lambda: None)
        monkeypatch.setattr(congestion, "obstacle", lambda cc: None)
        testbed = NamespacesTestbed()
        for case in cases:
            testbed.check(case.trial)

    def test_the_simulator_runs_every_case(self, cases):
        simulator = create("simulated")
        for case in cases:
            trial = case.trial
            if isinstance(trial.workload, Bulk):
                trial = msgspec.structs.replace(trial, workload=Bulk(duration_ns=SECOND // 5))
            simulator.run(trial)

    def test_runs_have_seeds_of_their_own_and_cases_share_them(self, cases):
        first, other = (case.runs(5, 20) for case in cases[:2])
        assert len({trial.seed for trial in first}) == 20
        assert [trial.seed for trial in first] == [trial.seed for trial in other]
        assert first[:5] == cases[0].runs(5, 5)


class Bed(Testbed):
    """A kernel whose throughput is the trial's buffer, on a machine of which the first trials fail."""

    name = "namespaces"
    parallel = 2

    def __init__(self, busy=0, kind="overloaded"):
        self.trials, self.busy, self.kind = [], busy, kind

    def run(self, trial):
        self.trials.append(trial)
        failed: Failure | None = None
        metadata: dict[str, bool | int | float | str] = {"waited_for_quiet_s": 1.26}
        if self.busy:
            self.busy -= 1
            failed = Failure(self.kind, "busy")
            metadata = {"overloaded": "busy"} if self.kind == "overloaded" else {}
        size = trial.buffer_bytes // 8
        return Observation(
            testbed=self.name,
            duration_ns=SECOND,
            in_order_bytes=size,
            bins=[max(1, size // 10)] * (SECOND // BIN_NS),
            subflows=[],
            failed=failed,
            metadata=metadata,
        )


class TestWhatIsKept:
    @pytest.fixture
    def environment(self, kept):
        return kept.Environment(
            kernel="6.18",
            machine="x86_64",
            sysctls={"net.ipv4.tcp_sack": "1", "net.ipv4.tcp_mem": "1 2 3"},
            agent="0.2",
            behaviour=1,
            processor="one",
            cores=2,
        )

    @pytest.fixture
    def planned(self, cases):
        return [(case, case.runs(5, 3)) for case in cases[:4]]

    @pytest.fixture
    def results(self, kept, tmp_path):
        return lambda purpose="working": kept.Results(tmp_path / "kernel" / "drawn-5.jsonl", 5, purpose)

    def test_what_was_measured_is_not_measured_again(self, kept, results, environment, planned):
        first, second = Bed(), Bed()
        quiet = Reporter(quiet=True)
        assert kept.measure(first, results(), environment, planned[:2], quiet) == 0
        assert len(first.trials) == 6
        assert kept.measure(second, results(), environment, planned, quiet) == 0
        assert len(second.trials) == 6
        runs = results().runs(planned[0][0], environment, planned[0][1])
        mbps = planned[0][0].trial.buffer_bytes // 8 * 8 / 1e6
        assert [run.mbps for run in runs] == pytest.approx([mbps] * 3, abs=1e-4)
        assert runs[0].waited_s == 1.3

    def test_first_runs_come_before_second_ones(self, kept, results, environment, planned):
        bed = Bed()
        bed.parallel = 1
        kept.measure(bed, results(), environment, planned, Reporter(quiet=True))
        assert [trial.seed for trial in bed.trials] == sorted(
            (trial.seed for trial in bed.trials), key=[trial.seed for trial in planned[0][1]].index
        )

    @pytest.mark.parametrize("kind", ["overloaded", "died", "refused"])
    def test_what_the_machine_spoils_is_measured_again_and_never_kept(
        self, kept, results, environment, planned, kind
    ):
        bed = Bed(busy=2, kind=kind)
        assert kept.measure(bed, results(), environment, planned[:1], Reporter(quiet=True)) == 0
        assert len(bed.trials) == 5
        hopeless = Bed(busy=100, kind=kind)
        assert kept.measure(hopeless, results(), environment, planned[1:2], Reporter(quiet=True)) == 3
        assert len(hopeless.trials) == 3 * kept.ATTEMPTS
        assert results().runs(planned[1][0], environment, planned[1][1]) == [None] * 3

    def test_what_the_kernel_makes_of_a_lossy_network_is_kept(self, kept, results, environment, planned):
        bed = Bed(busy=1, kind="unreachable")
        assert kept.measure(bed, results(), environment, planned[:1], Reporter(quiet=True)) == 0
        runs = results().runs(planned[0][0], environment, planned[0][1])
        assert sorted(str(run.failed) for run in runs) == ["None", "None", "unreachable"]

    def test_another_kernel_or_another_network_has_other_results(self, kept, environment, planned):
        case, other = planned[0][0], planned[1][0]
        keys = {kept.key(case, environment), kept.key(other, environment)}
        for name, value in (("kernel", "6.19"), ("sysctls", {}), ("behaviour", 2)):
            keys.add(kept.key(case, msgspec.structs.replace(environment, **{name: value})))
        wider = msgspec.structs.replace(
            case.trial.topology, lsrr_honoured=not case.trial.topology.lsrr_honoured
        )
        trial = msgspec.structs.replace(case.trial, topology=wider)
        keys.add(kept.key(msgspec.structs.replace(case, trial=trial), environment))
        assert len(keys) == 6

    def test_another_processor_or_release_of_mptune_has_the_same_results(self, kept, environment, planned):
        changed = msgspec.structs.replace(
            environment,
            processor="two",
            agent="0.3",
            sysctls=environment.sysctls | {"net.ipv4.tcp_mem": "4 5 6"},
        )
        assert kept.key(planned[0][0], changed) == kept.key(planned[0][0], environment)

    def test_what_is_committed_is_recognised_by_its_digests(self, kept):
        """A change of what is digested would have everything measured anew."""
        files = sorted(Path(BENCHMARKS, "fidelity", "kernel").glob("drawn-*.jsonl"))
        assert files
        for file in files:
            seed = int(file.stem.split("-")[1])
            results = kept.Results(file, seed, json.loads(file.read_text().splitlines()[0])["purpose"])
            assert results.environments
            assert all(environment.id == name for name, environment in results.environments.items())

    def test_a_draw_that_was_worked_with_cannot_be_reported(
        self, kept, results, environment, planned, capsys
    ):
        kept.measure(Bed(), results("report"), environment, planned[:1], Reporter(quiet=True))
        results("report")
        results("working")  # a look is enough
        assert "from now on it is a working draw" in capsys.readouterr().out
        with pytest.raises(SystemExit, match="expected a draw that nobody worked with, found 5"):
            results("report")

    def test_each_line_has_the_mean_and_every_run(self, kept, results, environment, planned, tmp_path):
        kept.measure(Bed(), results(), environment, planned, Reporter(quiet=True))
        head, about, *lines = map(
            json.loads, (tmp_path / "kernel" / "drawn-5.jsonl").read_text().splitlines()
        )
        assert head == {"draw": 5, "purpose": "working"}
        assert about["kernel"] == "6.18" and about["id"] == environment.id
        assert len(lines) == 4
        for line in lines:
            assert line["mean_mbps"] == pytest.approx(line["runs"][0]["mbps"], abs=1e-3)
            assert len(line["runs"]) == 3 and line["environment"] == environment.id

    def test_a_run_that_halts_is_a_stall_on_either_side(self, kept, planned):
        trial = planned[0][1][0]
        observed = Bed().run(trial)
        assert kept.condensed(trial, observed).failed is None
        silent = msgspec.structs.replace(observed, bins=[*observed.bins, *[0] * 500], failed=None)
        assert kept.condensed(trial, silent).failed == "stalled"
        assert kept.condensed(trial, silent).mbps is None


def judged(reporting, name, simulated, kernel, *, network="n", cc="reno", saturated=True):
    return reporting.Judged(
        name=name,
        network=network,
        saturated=saturated,
        about="",
        factors={"congestion control": (cc,)},
        simulated=tuple(simulated),
        kernel=tuple(kernel),
    )


class TestTheFigures:
    def test_twice_as_much_and_half_as_much_are_no_bias(self, reporting):
        cases = [
            judged(reporting, "a", [20, 20], [10, 10]),
            judged(reporting, "b", [10, 10], [20, 20]),
        ]
        figures = reporting.report(cases).whole.figures
        assert figures.bias == pytest.approx(0)
        assert figures.median == pytest.approx(0.75)  # of 1 and 1/2

    def test_a_regime_has_the_cases_that_belong_to_it(self, reporting):
        cases = [
            judged(reporting, "a", [11, 11], [10, 10], cc="reno"),
            judged(reporting, "b", [8, 8], [10, 10], cc="olia"),
        ]
        figures = {regime.regime: regime.figures for regime in reporting.report(cases).regimes}
        assert figures["reno"].bias == pytest.approx(0.1) and figures["olia"].bias == pytest.approx(-0.2)
        assert figures["reno"].n == figures["olia"].n == 1

    def test_the_kernel_against_itself_is_the_scatter_of_its_runs(self, reporting):
        same = reporting.report([judged(reporting, "a", [5, 5], [10] * 5)])
        assert same.floor.figures.median == 0 and same.whole.figures.median == pytest.approx(0.5)
        # Three against two: ten ways, each of them about means of 9 and 11 in some proportion.
        loose = reporting.report([judged(reporting, "a", [10] * 20, [9, 9, 10, 11, 11])])
        assert 0.02 < loose.floor.figures.median < 0.15
        assert loose.perfect_median is not None and loose.perfect_median < loose.floor.figures.median
        assert len(list(reporting.splits([judged(reporting, "a", [], [1, 2, 3, 4, 5])]))) == 10

    def test_regret_is_what_the_choice_loses_on_the_kernel(self, reporting):
        cases = [
            judged(reporting, "a", [30], [10, 10]),
            judged(reporting, "b", [20], [40, 40]),
            judged(reporting, "c", [99], [1, 1], saturated=False),
            judged(reporting, "d", [5], [5, 5], network="m"),
            judged(reporting, "e", [9], [9, 9], network="m"),
        ]
        pairs = [reporting.Pair(case, case.simulated, case.kernel) for case in cases]
        assert reporting.regrets(pairs) == {"n": pytest.approx(0.75), "m": 0}

    def test_a_choice_that_stalls_half_of_the_time_loses_half(self, reporting):
        cases = [
            judged(reporting, "a", [30, 30], [10, None]),
            judged(reporting, "b", [20, None], [10, 10]),
        ]
        pairs = [reporting.Pair(case, case.simulated, case.kernel) for case in cases]
        assert reporting.regrets(pairs) == {"n": 0.5}
        whole = reporting.report(cases).whole
        assert whole.stalls == (0.25, 0.25) and whole.stalls_agree == 0
        assert whole.figures.n == 2  # the means are of what has a number

    def test_intervals_hold_what_scatters_alike(self, reporting):
        spread = [9.0, 9.5, 10.0, 10.5, 11.0] * 4
        near = judged(reporting, "a", spread, [10.2] * 5)
        far = judged(reporting, "b", spread, [14.0] * 5)
        figures = reporting.report([near, far]).whole.figures
        assert figures.inside == 0.5
        assert reporting.Pair(near, near.simulated, near.kernel).model_error == 0
        needed = reporting.Pair(far, far.simulated, far.kernel).model_error
        # Student's 2.09 of 19 degrees of freedom: 40 % is not much more than twice the error of the model.
        assert 0.17 < needed < 0.4 / 2.09

    def test_the_worst_come_first_and_those_without_numbers_not_at_all(self, reporting):
        cases = [judged(reporting, str(size), [10 + size], [10]) for size in range(20)]
        cases.append(judged(reporting, "none", [None], [10]))
        report = reporting.report(cases)
        assert [case.name for case in report.worst] == [str(size) for size in range(19, 9, -1)]
        assert report.whole.figures.n == 20

    def test_the_page_has_a_place_for_both_tables(self):
        page = importlib.import_module("benchmarks.fidelity._drawn_run").PAGE.read_text(encoding="utf-8")
        for purpose in ("working", "report"):
            assert page.count(f"<!-- {purpose}: written by the command -->") == 1
            assert page.count(f"<!-- end of {purpose} -->") == 1

    def test_tables_and_figure_are_drawn_from_little(self, reporting):
        """One configuration with one run, which has no interval, no ranks and no regret."""
        tables, figure = (
            importlib.import_module("benchmarks.fidelity._drawn_tables"),
            importlib.import_module("benchmarks.fidelity._drawn_figure"),
        )
        changed = msgspec.structs.replace(
            judged(reporting, "a", [11], [10]), factors={"loss": ("none",), "paths": ("2",)}
        )
        report = reporting.report([changed])
        assert "| median error | 10.0% | -; no error: - |" in tables.markdown(report)
        assert figure.draw([changed], report).startswith("<svg")
        assert math.isclose(report.regimes[0].figures.bias, 0.1)
