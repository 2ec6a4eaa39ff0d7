"""Options: one declaration yields the flag, the campaign file's key, the check, the help, the error's place.

An option is a field of an options struct (`Options`), declared where the struct is::

    class DecisionOptions(Options, frozen=True, kw_only=True):
        resamples: Annotated[
            int, Option(count(0, 100_000), "Resamples of the runs.", key="decision.resamples")
        ] = 200

Nothing else is needed: the command line has `--resamples` (`mptune.cli` gets the flags of a struct from
`declared`), campaign files have `resamples` in `[decision]` (`Tables`), and Python has the field. An error
names the flag, or the file and key, of the value. The default is the field's. Checks of several options
together are in `Options.conflicts`, values that follow from others in `Options.completed`. A struct whose
fields are known only at run time can be made with `msgspec.defstruct`.

What an option does is the business of whoever reads the struct. Options of several commands are in
`mptune.options.trials`, those of path managers in `mptune.options.path_managers`, the sizes of buffers in
`mptune.options.buffers`.
"""

from mptune.options._declared import (
    Declared,
    Given,
    Option,
    Options,
    Place,
    build,
    by_flag,
    declared,
    error_about,
    in_file,
    left_alone,
    option_of,
    value_of,
    written,
)
from mptune.options._kinds import (
    SWITCH,
    TEXT,
    TOGGLE,
    Kind,
    check_distinct,
    choice,
    confidence,
    count,
    names,
    probability,
    rate,
    rate_mbps,
    several,
    share,
    size,
    texts,
    time,
    words,
)
from mptune.options._tables import Tables

__all__ = [
    "SWITCH",
    "TEXT",
    "TOGGLE",
    "Declared",
    "Given",
    "Kind",
    "Option",
    "Options",
    "Place",
    "Tables",
    "build",
    "by_flag",
    "check_distinct",
    "choice",
    "confidence",
    "count",
    "declared",
    "error_about",
    "in_file",
    "left_alone",
    "names",
    "option_of",
    "probability",
    "rate",
    "rate_mbps",
    "several",
    "share",
    "size",
    "texts",
    "time",
    "value_of",
    "words",
    "written",
]
