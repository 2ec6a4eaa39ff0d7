"""A bundle made from a run directory: its data, tables, figures, environment and commands in one zip file.

Everything comes from the run directory and from the versions of the libraries: not from the time, the machine
or the place where it is made.
"""

import json
import sqlite3
from contextlib import closing
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from mptune import __version__
from mptune.bundle._archive import write_zip
from mptune.bundle._crate import METADATA, Described, metadata
from mptune.campaign.definition import Definition, from_settings, read_definition
from mptune.campaign.definition_file import definition_file
from mptune.errors import InputError, MptuneError
from mptune.files import check_target, check_writable, name_of, write
from mptune.report.files import FIGURES, PAGE, write_report
from mptune.result.reading import read_run
from mptune.result.run_data import RunData
from mptune.routes.keeping import NETWORKS, ROUTES
from mptune.store import open_store
from mptune.store.directory import COMPARED, CONFIG, STORE
from mptune.store.export import export
from mptune.topology import shipped

#: Files of a run directory, and what they are. Others, which may be anyone's, stay out.
RUN_FILES = {
    CONFIG: "Options, topology, software versions and time of the run",
    STORE: "The store, an SQLite database: every trial with its seed, settings, series and statistics",
    "result.json": "The answer, the models, the confirmation",
    "impact.json": "Impact factors of the subflows",
    "observations.csv": "One row per trial",
    "subflows.csv": "One row per trial and subflow",
    "pareto.csv": "What other sacrifices of throughput would have given",
    "curves.csv": "The fitted models",
    "round_trips.csv": "RTT and retransmissions over time: one trial of each confirmed configuration",
    "sizes.csv": "The answer for each size of transfer",
    COMPARED: "What an answer by an objective was compared with",
    ROUTES: "Routes of the paths, a line of JSON for each time they were traced",
    NETWORKS: "Autonomous systems and places of routers by prefix",
}

TOPOLOGY = "topology.json"

#: Files that the bundle adds.
_ADDED = {
    PAGE: "The report: answer and evidence on one page, which needs no network",
    "environment.json": "Software and machine of the run as it recorded them; versions that drew the figures",
    TOPOLOGY: "The network as it was used, with the source of each value",
    "campaign.toml": "The options of the run as a campaign file",
    "README.md": "What is here, and the commands that make it again",
}

#: Libraries whose version decides what a figure looks like.
DRAWN_WITH = ("altair", "vl-convert-python")

NO_LICENCE = "None stated: ask who published this bundle."


class Made(msgspec.Struct, frozen=True):
    """A bundle that was written: its path, and the names of the files in it."""

    path: Path
    files: tuple[str, ...]


def write_bundle(
    directory: Path, out: Path, *, licence: str = NO_LICENCE, parquet: bool | None = None
) -> Made:
    """Write the bundle of a complete run; what was at `out` before stays until the new one is whole.

    Parameters
    ----------
    licence : of the data: a URL, or words.
    parquet : tables as Parquet, otherwise as CSV; None if pyarrow is installed.

    Raises
    ------
    InputError : not a complete run directory, or `out` is not a place for a file.
    MptuneError : it cannot be written.
    """
    check_writable(out, "--out")
    label = name_of(directory)
    run = read_run(directory, label)
    try:
        with TemporaryDirectory(dir=check_target(out).parent, prefix=".mptune-") as work:
            files = _collected(
                run, directory, label, Path(work), _has_parquet() if parquet is None else parquet
            )
            described = _described(run, label, licence)
            sizes = {name: (path.stat().st_size, _description(name, label)) for name, path in files.items()}
            crate = _written(Path(work) / METADATA, metadata(described, sizes))
            write_zip(out, {METADATA: crate, **{name: files[name] for name in sorted(files)}})
    except OSError as error:
        raise MptuneError(f"{out}: {error.strerror or error}; nothing was written") from None
    return Made(out, (METADATA, *sorted(files)))


def drawn_with() -> dict[str, str]:
    """Versions on which the figures of a report depend."""
    return {"mptune": __version__, **{name: version(name) for name in DRAWN_WITH}}


def _has_parquet() -> bool:
    from importlib.util import find_spec

    return find_spec("pyarrow") is not None


def _collected(run: RunData, directory: Path, label: str, work: Path, parquet: bool) -> dict[str, Path]:
    """Every file by its name in the bundle; those made for it are in `work`."""
    files = {
        f"{label}/{name}": directory / name
        for name in RUN_FILES
        if name != STORE and (directory / name).is_file()
    }
    documents: dict[str, Any] = {"environment.json": {"measured": _measured(run), "drawn": drawn_with()}}
    commands = [f"mptune report {label}"]
    store = directory / STORE
    if run.topology is not None:
        documents[TOPOLOGY] = run.topology
    if store.is_file():
        with open_store(store, write=False) as opened:
            campaign = opened.campaign()
            documents["environment.json"]["campaign"] = campaign.environment
            zone = datetime.fromisoformat(campaign.created).tzinfo
            tables = export(opened, work / "tables", "parquet" if parquet else "csv", series=True, zone=zone)
        files |= {f"tables/{table.name}": table for table in tables}
        files[f"{label}/{STORE}"] = _store(store, work)
        campaign_file = _campaign_file(from_settings(campaign.settings, str(store)), work)
        if campaign_file is not None:
            files["campaign.toml"] = campaign_file
            commands.insert(0, f"mptune campaign run campaign.toml --out {label}")
    for path in write_report([run], work / "report"):
        files[path.relative_to(work / "report").as_posix()] = path
    for name, content in documents.items():
        files[name] = _written(work / name, content)
    readme = work / "README.md"
    write(readme, _readme(run, label, commands))
    return {**files, "README.md": readme}


def _store(store: Path, work: Path) -> Path:
    """The store as one file, also where a reader of read-only media finds part of it in its journal."""
    journal = store.with_name(f"{store.name}-wal")
    if not (journal.is_file() and journal.stat().st_size):
        return store
    copied = work / STORE
    with (
        closing(sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(copied)) as target,
    ):
        source.backup(target)
    return copied


def _campaign_file(definition: Definition, work: Path) -> Path | None:
    """The campaign file that repeats the run; None where no file can express it.

    Its topology is a shipped scenario, or else `topology.json`, which is in the bundle too.
    """
    topology = definition.topology
    name = (topology.file or "").removesuffix(".toml")
    if name not in shipped():
        name = TOPOLOGY
        _written(work / TOPOLOGY, topology)
    path = work / "campaign.toml"
    write(path, definition_file(definition, name))
    try:
        if read_definition(path) != definition:
            return None
    except InputError:
        return None
    return path


def _measured(run: RunData) -> dict[str, Any]:
    """Contents of config.json, and the testbed's metadata of the first trial in the report."""
    trial = next((observation.metadata for observation in run.observations.values()), {})
    config = run.config
    return {"time": config.time, "versions": config.versions, "platform": config.platform, "one trial": trial}


def _described(run: RunData, label: str, licence: str) -> Described:
    answer = run.answer or run.by_size or run.by_objective
    text = (
        " ".join(answer.answer) if answer is not None else f"Observations of {run.name}; no recommendation."
    )
    return Described(
        name=f"mptune run: {run.name}",
        description=text,
        published=run.config.time,
        licence=licence,
        version=str(run.config.versions.get("mptune", "unknown")),
        run=label,
    )


def _description(name: str, label: str) -> str:
    folder, _, file = name.rpartition("/")
    if folder == label:
        return RUN_FILES[file]
    if folder == FIGURES:
        return f"Figure of the report: {Path(file).stem}"
    if folder == "tables":
        return f"The store as a table: {Path(file).stem}, with units in the names of the columns"
    return _ADDED[name]


def _readme(run: RunData, label: str, commands: list[str]) -> str:
    lines = [f"    {command}" for command in commands]
    own = (
        ""
        if len(commands) > 1
        else "\nThe measurements were made elsewhere, or no campaign file describes them.\n"
    )
    return "\n".join(
        [
            f"# {run.name}: a run of mptune",
            "",
            f"`{PAGE}` has the answer and the evidence; open it in a browser. `{label}` is the run,",
            f"`{FIGURES}` and `tables` were made from it, `{METADATA}` describes every file (RO-Crate 1.1).",
            "",
            "To draw the same figures again from the bundle, without unpacking it: `mptune report FILE.zip`.",
            "The versions that give the same bytes are in `environment.json`, under `drawn`.",
            "",
            "The run, from its options, and its report:",
            "",
            *lines,
            own,
        ]
    )


def _written(path: Path, document: Any) -> Path:
    text = json.dumps(msgspec.to_builtins(document), indent=2, ensure_ascii=False, allow_nan=False)
    write(path, f"{text}\n")
    return path
