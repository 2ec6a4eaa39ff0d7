"""The JSON Schema of `result.json`, generated from the structs that read it.

`python -m mptune.result.schema` prints it; the package ships it as `result.schema.json` beside this file. A
document has the schema's version in `version`. Fields may be added within a version; none is renamed.
"""

import sys
from typing import Any

import msgspec

from mptune.result.answer import RESULT_VERSION, Answer, ObjectiveAnswer, SizesAnswer


def result_schema() -> dict[str, Any]:
    """Schema (draft 2020-12) of an answer about throughput, or by size of transfer."""
    kinds, parts = msgspec.json.schema_components(
        (Answer, SizesAnswer, ObjectiveAnswer), ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:mptune:result:{RESULT_VERSION}",
        "title": "result.json of mptune",
        "anyOf": list(kinds),
        "$defs": parts,
    }


def text() -> str:
    """The schema as it is shipped."""
    return msgspec.json.format(msgspec.json.encode(result_schema()), indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
