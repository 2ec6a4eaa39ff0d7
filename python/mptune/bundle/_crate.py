"""The metadata of a bundle as JSON-LD: RO-Crate 1.1 (https://www.researchobject.org/ro-crate/specification/1.1/).

Pure: from names and sizes of files to a document. It reads and writes nothing.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

#: Name of the metadata file, which the specification fixes.
METADATA = "ro-crate-metadata.json"

_CONTEXT = "https://w3id.org/ro/crate/1.1/context"
_SPECIFICATION = "https://w3id.org/ro/crate/1.1"
_SOFTWARE = "#mptune"
_ACTION = "#measuring"

#: Media types by suffix.
_FORMATS = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".sqlite": "application/vnd.sqlite3",
    ".svg": "image/svg+xml",
    ".toml": "application/toml",
}


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A run in words.

    Attributes
    ----------
    published : date and time, ISO 8601; of the run, so that the same run gives the same document.
    licence : URL, or words where nobody stated one.
    version : of the mptune that measured.
    run : folder of the run directory in the bundle.
    """

    name: str
    description: str
    published: str
    licence: str
    version: str
    run: str


def metadata(described: Described, files: Mapping[str, tuple[int, str]]) -> dict[str, Any]:
    """The document.

    Parameters
    ----------
    files : size in bytes and description of every file, by its path in the bundle.
    """
    folders = sorted({f"{PurePosixPath(name).parent}/" for name in files if "/" in name})
    top = [*folders, *(name for name in sorted(files) if "/" not in name)]
    return {
        "@context": _CONTEXT,
        "@graph": [
            {
                "@id": METADATA,
                "@type": "CreativeWork",
                "about": {"@id": "./"},
                "conformsTo": {"@id": _SPECIFICATION},
            },
            {
                "@id": "./",
                "@type": "Dataset",
                "name": described.name,
                "description": described.description,
                "datePublished": described.published,
                "license": _licence(described.licence),
                "hasPart": _ids(top),
                "mainEntity": {"@id": f"{described.run}/"},
                "mentions": {"@id": _ACTION},
            },
            *_licences(described.licence),
            *(
                {
                    "@id": folder,
                    "@type": "Dataset",
                    "name": folder.rstrip("/"),
                    "hasPart": _ids(name for name in sorted(files) if name.startswith(folder)),
                }
                for folder in folders
            ),
            *(_file(name, *files[name]) for name in sorted(files)),
            {
                "@id": _SOFTWARE,
                "@type": "SoftwareApplication",
                "name": "mptune",
                "version": described.version,
            },
            {
                "@id": _ACTION,
                "@type": "CreateAction",
                "name": f"Measuring and deciding: {described.name}",
                "endTime": described.published,
                "instrument": {"@id": _SOFTWARE},
                "object": _ids(name for name in ("campaign.toml", "topology.json") if name in files),
                "result": {"@id": f"{described.run}/"},
            },
        ],
    }


def _ids(names: Any) -> list[dict[str, str]]:
    return [{"@id": name} for name in names]


def _file(name: str, size: int, description: str) -> dict[str, Any]:
    entity = {
        "@id": name,
        "@type": "File",
        "name": PurePosixPath(name).name,
        "description": description,
        "contentSize": str(size),
    }
    known = _FORMATS.get(PurePosixPath(name).suffix)
    return entity if known is None else {**entity, "encodingFormat": known}


def _licence(text: str) -> Any:
    return {"@id": text} if text.startswith(("http://", "https://")) else text


def _licences(text: str) -> list[dict[str, str]]:
    return [{"@id": text, "@type": "CreativeWork", "name": text}] if isinstance(_licence(text), dict) else []
