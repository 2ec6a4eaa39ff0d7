"""A run in one row of a table: its network, what it recommends, and what that gains.

From its documents alone, which takes milliseconds: neither its trials nor its figures are looked at. A whole
run is read by `mptune.result.reading`.
"""

from pathlib import Path

import msgspec

from mptune.result.answer import NAMES, Answer, ObjectiveAnswer, SizesAnswer
from mptune.result.documents import read_document, read_result
from mptune.result.run_data import ConfigFile
from mptune.result.screen import buffer_of, configured, in_words, saved
from mptune.result.values import Baselines, Gain, Interval
from mptune.store.directory import CONFIG, no_run
from mptune.units import format_size


class InShort(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run in a row.

    Attributes
    ----------
    network : name of the topology, or of the file with the measurements.
    time : when it was finished, as ISO 8601.
    answer : the configuration in few words, without its buffers; empty for a sweep.
    buffers : those, of sender and receiver if they differ.
    metric, unit : what the numbers are of.
    beside : what the answer is compared with: "now", or the papers' default.
    before, recommended, gain : with 95 % intervals, in the unit; a gain is positive where ours is better.
    remark : text in place of numbers; empty if there is none.
    """

    network: str
    time: str
    answer: str = ""
    buffers: str = ""
    metric: str = ""
    unit: str = ""
    beside: str = ""
    before: Interval = Interval()
    recommended: Interval = Interval()
    gain: Gain = Gain()
    remark: str = ""


def read_in_short(directory: Path) -> InShort:
    """Read a finished run's documents.

    Raises
    ------
    InputError : it is none, or a document in it is damaged.
    """
    config = read_document(directory, CONFIG, ConfigFile)
    if config is None:
        raise no_run(directory)
    result = read_result(directory)
    name = config.topology.get("name") or Path(str(config.options.get("from", ""))).stem
    row = InShort(network=str(name), time=config.time)
    match result:
        case None:
            return msgspec.structs.replace(row, remark="a sweep makes no recommendation")
        case SizesAnswer():
            words = f"one for each of {len(result.sizes)} sizes"
            return msgspec.structs.replace(row, answer=words, metric="completion", remark=saved(result.sizes))
        case ObjectiveAnswer():
            return _of_objective(row, result)
        case _:
            return _of_throughput(row, result)


def _of_throughput(row: InShort, answer: Answer) -> InShort:
    pairs = {name: pair for name, pair, _ in answer.shown()}
    ours = pairs["recommended"]
    beside, before, gain = _beside(answer.baselines, answer.default, answer.gain or Gain())
    unsure = ours.mean is None
    return msgspec.structs.replace(
        row,
        answer=configured(ours),
        buffers=buffer_of(ours),
        metric="throughput",
        unit="Mbit/s",
        beside=beside,
        before=before,
        recommended=Interval(mean=answer.otp_mbps) if unsure else ours,
        gain=gain,
        remark="expected, not measured again" if unsure else "",
    )


def _of_objective(row: InShort, answer: ObjectiveAnswer) -> InShort:
    first, ours = answer.figures[0], answer.recommended
    over = first.gain.mean, first.default.mean
    share = None if over[0] is None or not over[1] else over[0] / over[1]
    own = Gain(**msgspec.structs.asdict(first.gain), share=share)
    beside, before, gain = _beside(answer.baselines, first.default, own)
    return msgspec.structs.replace(
        row,
        answer=in_words(ours),
        buffers=format_size(ours.buffer_bytes, 3),
        metric=first.name,
        unit=first.unit,
        beside=beside,
        before=before,
        recommended=first.recommended,
        gain=gain,
    )


def _beside(baselines: Baselines | None, default: Interval | None, gain: Gain) -> tuple[str, Interval, Gain]:
    """Hosts' settings of today, if measured, or else the default; its name, its values, our gain."""
    now = None if baselines is None else baselines.now
    if now is not None and now.mean is not None:
        own = now.gain
        share = own.share if own.share is not None or own.mean is None else own.mean / now.mean
        return "now", now, msgspec.structs.replace(own, share=share)
    return ("", Interval(), Gain()) if default is None else (NAMES["default"], default, gain)
