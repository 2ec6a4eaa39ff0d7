"""The word for a workload: what it means, what it is written as, and what is refused."""

import re

import pytest

from mptune.options.workloads import WORKLOAD, impossible, shown
from mptune.trial import Pattern

MS, SECOND = 10**6, 10**9


@pytest.mark.parametrize(
    ("text", "size", "interval_ns"),
    [
        ("messages:200B/100ms", 200, 100 * MS),
        (" messages:1.5KiB/20ms ", 1536, 20 * MS),
        ("messages:1MB/2s", 10**6, 2 * SECOND),
        ("messages:64 KiB/1 s", 65536, SECOND),
    ],
)
def test_a_word_is_a_size_and_an_interval(text, size, interval_ns):
    pattern = WORKLOAD.parse(text)
    assert pattern == Pattern(bytes=size, interval_ns=interval_ns)
    assert WORKLOAD.parse(shown(pattern)) == pattern


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("calls:200B/100ms", "expected one of messages"),
        ("", "expected one of messages"),
        ("messages", 'expected messages:SIZE/INTERVAL, such as "messages:200B/100ms", found'),
        ("messages:200B", 'expected messages:SIZE/INTERVAL, such as "messages:200B/100ms", found'),
        ("messages:/100ms", "expected a size such as"),
        ("messages:200/100ms", "expected a size such as"),
        ("messages:200B/", "expected a time such as"),
        ("messages:200B/100", "expected a time such as"),
        ("messages:200B/100ms/2", "expected a time such as"),
        ("messages:-1B/100ms", "expected a size that is not negative"),
        ("messages:0B/1s", "expected a size above 0, found 0"),
        ("messages:200B/0s", "expected an interval above 0, found 0"),
    ],
)
def test_a_wrong_word_is_refused(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        WORKLOAD.check(WORKLOAD.parse(text))


def test_a_trial_has_a_million_messages_at_most():
    pattern = Pattern(bytes=1, interval_ns=30_000)
    assert list(impossible(pattern, 30 * SECOND)) == []
    assert list(impossible(pattern, 30 * SECOND + 1)) == ["expected at most 1000000 messages, found 1000001"]
    assert list(impossible(None, 30 * SECOND)) == list(impossible(pattern, None)) == []


def test_messages_are_due_from_the_beginning_and_not_at_the_end():
    assert Pattern(bytes=1, interval_ns=100 * MS).lasting(SECOND).count == 10
    assert Pattern(bytes=1, interval_ns=100 * MS).lasting(SECOND + 1).count == 11
    assert Pattern(bytes=1, interval_ns=3 * SECOND).lasting(SECOND).count == 1
