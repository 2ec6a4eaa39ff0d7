"""Numbers for people, and text of others."""

import pytest

from mptune._text import QUOTED, bounded, digits, escaped, file_name, in_one_line, pace, quoted, visible
from mptune.errors import Failure, InputError, MptuneError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (276.04, "276.0"),
        (0.81, "0.8100"),
        (12345.6, "12350"),
        (9.9996, "10.00"),
        (0.0, "0.000"),
        (-3.2561, "-3.256"),
    ],
)
def test_significant_digits(value: float, text: str) -> None:
    assert digits(value) == text


def test_fewer_digits_with_sign() -> None:
    assert (digits(13.58, 3, "+"), digits(-20.09, 3, "+")) == ("+13.6", "-20.1")


@pytest.mark.parametrize(
    ("per_s", "text"),
    [(154.52, "154.5 trials/s"), (1.0, "1.0 trials/s"), (0.032, "31 s a trial"), (0, "- trials/s")],
)
def test_a_slow_pace_is_a_time(per_s: float, text: str) -> None:
    assert pace(per_s, "trials") == text


@pytest.mark.parametrize("text", ["Tromsø", "日本", 'it\'s [red] "x" \\x1b', "a b", "🙂", ""])
def test_what_prints_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text and quoted(text) == repr(text) and in_one_line(text) == text


@pytest.mark.parametrize(
    "code", [*range(32), *range(127, 161), 0x202E, 0x2066, 0x2028, 0xFEFF, 0xDCFF, 0xE0001]
)
def test_what_does_not_print_is_shown_as_an_escape(code: int) -> None:
    for text in (visible(f"a{chr(code)}b"), quoted(f"a{chr(code)}b"), escaped(f"a{chr(code)}b")):
        assert text.isprintable() or (chr(code), text) == ("\n", "a\nb")
        assert f"{code:x}" in text.lower() or chr(code) in "\t\n\r"


def test_line_feeds_stay_where_there_may_be_lines() -> None:
    assert visible("a\nb\r", lines=True) == "a\nb\\r"
    assert in_one_line("a \n\n  b\tc\n") == "a b\\tc"


@pytest.mark.parametrize(
    "value",
    ["n" * 10**6, "\x1b" * 10**6, 10**5000, [[["x" * 100] * 100] * 9], {"a" * 1000: 1}, b"x" * 10**6, None],
    ids=["letters", "escapes", "number", "lists", "table", "bytes", "nothing"],
)
def test_what_is_quoted_has_an_end(value: object) -> None:
    assert 1 < len(quoted(value)) <= QUOTED and quoted(value).isprintable()


def test_what_contains_itself_is_quoted() -> None:
    value: list[object] = []
    value.append(value)
    assert len(quoted(value)) <= QUOTED


def test_a_long_text_keeps_both_ends() -> None:
    text = "a" * 500 + "b" * 500
    assert (
        len(bounded(text, 99)) == 99
        and bounded(text, 99).startswith("aaa")
        and bounded(text, 99).endswith("bbb")
    )
    assert bounded("short", 5) == "short"


@pytest.mark.parametrize(
    "name", ["../..", "/", "..", "", ".x", "a/b", "a\0b", "x" * 1000, "\u202e", "\n", "日" * 100]
)
def test_the_name_of_a_file_is_no_path(name: str) -> None:
    made = file_name(name, "otherwise")
    assert made and "/" not in made and made.isprintable() and not made.startswith(".")
    assert len(made.encode()) < 200


def test_messages_are_lines_with_an_end_whatever_is_in_them() -> None:
    evil = "x\x1b[2J\ny\u202e" * 10_000
    for error in (MptuneError(evil), InputError(evil, evil, evil), Failure("refused", evil)):
        assert str(error).isprintable() and len(str(error)) <= 1000
    error = InputError("f.toml", "a.b", "expected x, found y")
    assert str(error) == "f.toml: a.b: expected x, found y"
