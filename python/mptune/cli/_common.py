"""Parts that all commands share: global options, error handling and output.

It knows no particular command. The contract: results on stdout, one line per error on stderr, exit codes
0 (done), 1 (could not be done), 2 (the input is wrong), 130 (interrupted).
"""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from mptune import interrupts
from mptune._text import bounded, in_one_line, visible
from mptune.cli._flags import with_flags
from mptune.cli._help import Command, Groups, with_all
from mptune.errors import InputError, Interrupted, MptuneError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from mptune.topology import Topology


def complete_scenarios(incomplete: str) -> list[str]:
    """Completions for a topology; the shell adds files itself."""
    from mptune.topology import shipped

    return [name for name in shipped() if name.startswith(incomplete)]


#: The TOPOLOGY argument, the same for every command.
TopologyArgument = Annotated[
    str,
    typer.Argument(
        metavar="TOPOLOGY",
        help="A topology file, or the name of a shipped scenario.",
        autocompletion=complete_scenarios,
    ),
]
#: Options that are the same in every command.
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Show no progress on stderr.")]
DetailsOption = Annotated[
    bool, typer.Option("--details", help="Print all of the evidence instead of one screen.")
]
OutOption = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Run directory.  [default: runs/<name>-<time>]"),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an earlier run in --out.")]

#: Base class of typer's own errors (unknown option, missing argument). It has no public name: depending on
#: the version it is in click or in typer itself.
_USAGE_ERROR: type[BaseException] = typer.BadParameter.__mro__[2]

#: Errors of an output that takes no more.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

#: Most characters of what is wrong with a command line.
_USAGE = 200

#: Name of the program.
PROGRAM = "mptune"
#: With it set, the program completes a command line instead of running it.
COMPLETION_VARIABLE = "_MPTUNE_COMPLETE"


class _Program(Groups):
    """Turns every error into one line and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        if COMPLETION_VARIABLE in os.environ:
            from typer.completion import completion_init  # type: ignore[attr-defined] # imported there

            completion_init()
        try:
            code = super().main(
                args, prog_name, complete_var or COMPLETION_VARIABLE, False, windows_expand_args, **extra
            )
            if sys.stdout is not None:
                sys.stdout.flush()
        except _USAGE_ERROR as error:
            _fail(_usage(error))
            code = 2
        except OSError as error:
            if not _of_output(error):
                raise
            _fail(f"standard output: {error.strerror}")
            with suppress(OSError):
                sys.stdout.close()  # or Python would try once more
            code = 1
        if standalone_mode:
            sys.exit(code)
        return code

    def invoke(self, ctx: Any) -> Any:
        try:
            with interrupts.noting():
                return super().invoke(ctx)
        except (typer.Exit, typer.Abort, BrokenPipeError, _USAGE_ERROR):
            raise
        except KeyboardInterrupt as error:
            tell_interrupt(error)
            raise typer.Exit(130) from None
        except Exception as error:
            if ctx.params["debug"]:
                echo(traceback.format_exc(), err=True, nl=False)
            if isinstance(error, MptuneError):
                _fail(str(error))
                raise typer.Exit(error.exit_code) from None
            if _of_output(error):
                raise
            _fail(f"unexpected {type(error).__name__}: {error} (mptune --debug ... shows where)")
            raise typer.Exit(1) from None


def program() -> typer.Typer:
    """Build the app with its global options and no commands yet."""
    app = typer.Typer(
        cls=_Program,
        name=PROGRAM,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback(
        invoke_without_command=True,
        epilog=examples(
            "mptune optimise CLOUD-HOME.hybrid     # a shipped scenario: what to set, and what it gains",
            "mptune probe laptop server --out my-sites.toml     # your own network",
            "mptune optimise --help                # of every command; --help-all shows the rare options too",
        ),
    )(_options)
    return app


def _options(
    ctx: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the versions, the kernel and what is installed, and exit."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --version: print that as JSON.")] = False,
) -> None:
    """Find the best Multipath TCP configuration for a multi-homed host."""
    if version:
        from mptune.cli._version import about, lines

        versions = about()
        if as_json:
            emit_json(versions)
        else:
            echo("\n".join(lines(versions)))
        raise typer.Exit
    if as_json:
        raise InputError("--json", "", "expected with --version, or after a command")
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit


def add(
    app: typer.Typer,
    function: Callable[..., None],
    *lines: str,
    name: str | None = None,
    settings: dict[str, Any] | None = None,
) -> None:
    """Add a command: its flags from the declarations of its options, and examples below its help.

    Parameters
    ----------
    lines : as for `examples`.
    name : on the command line, if it is not the function's.
    settings : of its context.
    """
    command = with_all(with_flags(function), len(lines))
    app.command(name, cls=Command, context_settings=settings, epilog=examples(*lines))(command)


def subcommands(help_: str) -> typer.Typer:
    """Commands below one name.

    Parameters
    ----------
    help_ : what they are about, in a sentence.
    """
    return typer.Typer(cls=Groups, rich_markup_mode=None, help=help_)


def load_topology(name: str, *, reverse: bool, family: str = "") -> Topology:
    """Load the topology of a command, with sender and receiver exchanged if `reverse`.

    Parameters
    ----------
    family : of its connections; over both families it has the paths of both.

    Raises
    ------
    InputError : no such topology, or something in it is wrong.
    """
    from mptune.topology import load

    topology = load(name).over(family)
    return topology.reversed() if reverse else topology


def examples(*lines: str) -> str:
    """Epilog of a command's help: example command lines, printed unchanged.

    Parameters
    ----------
    lines : command lines, with a comment after "#" where that helps.
    """
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def emit_json(result: object, *, indent: int = 2, err: bool = False) -> None:
    """Print a result (anything msgspec can encode) as JSON; NaN becomes null.

    Parameters
    ----------
    indent : negative for one line.
    """
    text = msgspec.json.format(msgspec.json.encode(result), indent=indent).decode()
    # Outside texts JSON has nothing that does not print, but for line feeds.
    encoding = getattr(sys.stderr if err else sys.stdout, "encoding", None) or "utf-8"
    plain = encoding.lower().replace("-", "") != "utf8"
    as_it_is = text.isprintable() and not plain
    typer.echo(text if as_it_is else "".join(_in_json(name, plain=plain) for name in text), err=err)


def _in_json(letter: str, *, plain: bool) -> str:
    """A character as it is, or as the escape for what does not print: the value is the same.

    Parameters
    ----------
    plain : nothing but ASCII prints.
    """
    prints = letter.isprintable() and (letter.isascii() or not plain)
    return letter if prints or letter == "\n" else json.dumps(letter)[1:-1]


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text, in which nothing that others wrote controls the terminal."""
    typer.echo(visible(str(text), lines=True), err=err, nl=nl)


def console() -> Console:
    """Console for tables and text on stdout."""
    from mptune._terminal import terminal

    return terminal()


def _of_output(error: Exception) -> bool:
    """True if output cannot be written: of files and sockets every error is caught where they are used."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _FULL


def _usage(error: BaseException) -> str:
    message = bounded(in_one_line(_objection(error)), _USAGE)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "mptune"
    return f"{message.rstrip('.')} ({command} --help)"


def _objection(error: BaseException) -> str:
    """Error of a command line, with the nearest of the names that were possible."""
    near = get_close_matches(
        getattr(error, "option_name", ""), getattr(error, "possibilities", None) or (), 1, 0
    )
    if near:
        return f"{getattr(error, 'message', error)}. Did you mean {near[0]!r}?"
    return str(getattr(error, "format_message", error.__str__)())


def tell_interrupt(error: KeyboardInterrupt, note: str = "") -> None:
    """Report Ctrl-C, what is kept, the best answer so far, and what is left undone."""
    echo(f"mptune: interrupted{note}", err=True)
    answer = error.so_far if isinstance(error, Interrupted) else ""
    for line in (answer, *getattr(error, "__notes__", ())):
        if line:
            echo(f"mptune: {line}", err=True)


def _fail(message: str) -> None:
    echo(f"mptune: error: {in_one_line(message)}", err=True)
