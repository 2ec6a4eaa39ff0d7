"""The word for a workload: what it means, what it is written as, and what is refused."""

import re

import msgspec
import pytest

from mptune.options.workloads import (
    WORKLOAD,
    AskedWorkload,
    impossible,
    on_connections,
    shown,
)
from mptune.trial import Asked, Asking, Browsing, Bursting, Commands, Pattern, Several, Watching
from mptune.trial.workloads import WRITTEN
from mptune.trial.workloads.video import LADDER

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


def test_messages_go_one_way_unless_both_are_asked_for():
    pattern = WORKLOAD.parse("messages:200B/100ms, both")
    assert pattern == Pattern(bytes=200, interval_ns=100 * MS, both_ways=True)
    assert shown(pattern) == "messages:200B/100ms,both"
    assert WORKLOAD.parse("mix:messages:200B/100ms,both+bulk").text == "mix:messages:200B/100ms,both+bulk"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("calls:200B/100ms", "expected one of bulk, messages"),
        ("", "expected one of bulk, messages"),
        ("messages", "expected messages:SIZE/INTERVAL[,both], found"),
        ("messages:200B", "expected messages:SIZE/INTERVAL[,both], found"),
        ("messages:/100ms", "expected a size such as"),
        ("messages:200/100ms", "expected a size such as"),
        ("messages:200B/", "expected a time such as"),
        ("messages:200B/100", "expected a time such as"),
        ("messages:200B/100ms/2", "expected a time such as"),
        ("messages:-1B/100ms", "expected a size that is not negative"),
        ("messages:0B/1s", "expected a message of at least 1 B, found 0 B"),
        ("messages:200B/0s", "expected an interval above 0, found 0"),
        ("messages:200B/1s,think=1s", "expected messages:SIZE/INTERVAL[,both], found"),
        ("messages:200B/1s,both,both", "expected messages:SIZE/INTERVAL[,both], found"),
        ("messages:200B/1s,", "expected messages:SIZE/INTERVAL[,both], found"),
        ("requests:400B", "expected requests:SIZE/SIZE[,think=TIME][,at_once=N], found"),
        ("requests:400B/0B", "expected a response of at least 1 B, found 0 B"),
        ("requests:400B/1KiB,at_once=0", "expected 1 to 1000 requests at once, found 0"),
        ("requests:400B/1KiB,think=1s,think=2s", "expected requests:SIZE/SIZE"),
        ("page:1KiB/20KiB", "expected page:SIZE/NxSIZE[,think=TIME], found"),
        ("page:1KiB/0x20KiB", "expected 1 to 10000 objects, found 0"),
        ("exec:", "expected exec:CLIENT,SERVER, two command lines with a comma that is not quoted, found"),
        ("exec:a", "expected exec:CLIENT,SERVER, two command lines"),
        ("exec:a,b,c", "expected exec:CLIENT,SERVER, two command lines"),
        ("exec:'a,b", 'expected exec:CLIENT,SERVER, found "exec:\'a,b": No closing quotation'),
        ("mix:", "expected one of bulk, transfer, messages"),
        ("mix:calls", "expected one of bulk, transfer, messages"),
        ("mix:bulk+", "expected one of bulk, transfer, messages"),
        ("mix:bulk:1MiB", "expected bulk, found"),
        ("mix:transfer", "expected transfer:SIZE, found"),
        ("mix:transfer:0B", "expected a transfer of at least 1 B, found 0 B"),
        ("mix:mix:bulk", "expected one of bulk, transfer, messages"),
        ("mix:messages:200B", "expected messages:SIZE/INTERVAL[,both], found"),
        ("mix:bulk+messages:200B/0s", "expected an interval above 0, found 0"),
        ("mix:x*bulk", "expected a whole number, found"),
        ("mix:0*bulk", "expected 1 to 1000 connections, found 0"),
        ("mix:999*bulk+2*bulk", "expected 1 to 1000 connections, found 1001"),
        ("bulk:1MiB", "expected bulk, found"),
        ("page:1KiB/3x20KiB,at_once=2", "expected page:SIZE/NxSIZE[,think=TIME], found"),
        ("on-off:1MiB", "expected on-off:SIZE/TIME, found"),
        ("on-off:0B/1s", "expected a burst of at least 1 B, found 0 B"),
        ("on-off:1MiB/0s", "expected a gap above 0, found 0"),
        ("on-off:1MiB/2s,think=1s", "expected on-off:SIZE/TIME, found"),
        ("on-off:bursts.csv", "expected on-off:SIZE/TIME, found"),
        ("video:", "expected bitrates such as 365k/1M/2.5M, found ''"),
        ("video:1M/2M,think=1s", "expected video[:RATE/RATE...][,segment=TIME][,buffer=TIME], found"),
        ("video:segment=4s,1M", "expected video[:RATE"),
        ("video,segment=4s,segment=4s", "expected video[:RATE"),
        ("video:1M/fast", "expected bitrates such as 365k/1M/2.5M, found 'fast'"),
        ("video:1M/", "expected bitrates such as 365k/1M/2.5M, found ''"),
        ("video:1Mbit/s", "expected bitrates such as 365k/1M/2.5M, found '1Mbit'"),
        ("video:2M/1M", "expected bitrates that rise, found 2 Mbit/s and 1 Mbit/s"),
        ("video:1M/1M", "expected bitrates that rise, found 1 Mbit/s and 1 Mbit/s"),
        ("video:0M/1M", "expected bitrates that rise, found 0 bit/s"),
        ("video:1M,segment=0s", "expected segments longer than 0, found 0"),
        ("video:1M,buffer=7s", "expected a buffer of at least two segments, 8 s, found 7 s"),
        ("video:1M,buffer=much", "expected a time such as"),
    ],
)
def test_a_wrong_word_is_refused(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        WORKLOAD.check(WORKLOAD.parse(text))


@pytest.mark.parametrize("form", [*WRITTEN.values(), Several, Commands])
def test_the_help_begins_with_a_text_that_means_it(form):
    example, colon, _ = form.help.partition(": ")
    asked = WORKLOAD.parse(example)
    WORKLOAD.check(asked)
    assert isinstance(asked, form) and colon and asked.text == example


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("requests:400B/64KiB", Asking(request_bytes=400, response_bytes=65536)),
        (
            "requests:400B/64KiB,at_once=2,think=1s",
            Asking(request_bytes=400, response_bytes=65536, think_ns=SECOND, at_once=2),
        ),
        ("page:60KiB/30x20KiB", Browsing(page_bytes=61440, objects=30, object_bytes=20480)),
        (
            "page:60KiB/30x20KiB,think=1s",
            Browsing(page_bytes=61440, objects=30, object_bytes=20480, think_ns=SECOND),
        ),
        ("exec:./client.sh, ./server.sh", Commands(client=("./client.sh",), server=("./server.sh",))),
        (
            "exec:sh -c 'curl $URL/a,b' x,nginx -g \"daemon off;\" a','b",
            Commands(client=("sh", "-c", "curl $URL/a,b", "x"), server=("nginx", "-g", "daemon off;", "a,b")),
        ),
    ],
)
def test_what_is_asked_for_has_a_word_too(text, asked):
    assert WORKLOAD.parse(text) == asked == WORKLOAD.parse(shown(asked))
    WORKLOAD.check(asked)
    assert list(impossible(asked, SECOND)) == (
        ["expected less thinking than the duration of 1 s, found 1 s"]
        if getattr(asked, "think_ns", 0)
        else []
    )
    # As settings of a campaign are kept and read again.
    assert msgspec.convert(msgspec.to_builtins(asked), AskedWorkload) == asked


@pytest.mark.parametrize(
    ("text", "ladder_bps", "segment_ns", "buffer_ns"),
    [
        ("video", LADDER, 4 * SECOND, 30 * SECOND),
        ("video,buffer=20s", LADDER, 4 * SECOND, 20 * SECOND),
        ("video:365k/2.5M", (365_000, 2_500_000), 4 * SECOND, 30 * SECOND),
        ("video:1M/1.000001M,segment=2s,buffer=4s", (10**6, 10**6 + 1), 2 * SECOND, 4 * SECOND),
        ("video:segment=500ms", LADDER, SECOND // 2, 30 * SECOND),
    ],
)
def test_a_video_has_usual_bitrates_unless_others_are_asked_for(text, ladder_bps, segment_ns, buffer_ns):
    asked = Watching(ladder_bps=ladder_bps, segment_ns=segment_ns, buffer_ns=buffer_ns)
    assert WORKLOAD.parse(text) == asked == WORKLOAD.parse(shown(asked))
    WORKLOAD.check(asked)
    assert list(impossible(asked, segment_ns + 1)) == []
    assert len(list(impossible(asked, segment_ns))) == 1
    assert msgspec.convert(msgspec.to_builtins(asked), Asked) == asked


@pytest.mark.parametrize(
    "text",
    [
        "mix:bulk",
        "mix:20*bulk+messages:200B/100ms",
        "mix:video:1M/2M,segment=500ms,buffer=20s+bulk",
        "mix:messages:200B/100ms+3*requests:400B/64KiB,think=1s+transfer:1MiB+page:60KiB/30x20KiB",
    ],
)
def test_a_mix_has_a_word(text):
    asked = WORKLOAD.parse(text)
    assert isinstance(asked, Several) and WORKLOAD.parse(shown(asked)) == asked
    WORKLOAD.check(asked)
    assert msgspec.convert(msgspec.to_builtins(asked), AskedWorkload) == asked
    thinking = ["expected less thinking than the duration of 1 s, found 1 s"]
    assert list(impossible(asked, SECOND)) == (thinking if "think" in text else [])


def test_many_connections_are_a_mix_of_one_workload():
    calls = WORKLOAD.parse("messages:200B/100ms")
    assert on_connections(calls, 1) is calls and on_connections(None, 1) is None

    def text(*asked):
        several = on_connections(*asked)
        assert several is not None
        return shown(several)

    assert text(calls, 20) == "mix:20*messages:200B/100ms"
    assert text(None, 3) == "mix:3*bulk"
    assert text(None, 3, 1048576) == "mix:3*transfer:1MiB"
    assert text(WORKLOAD.parse("mix:bulk+2*bulk"), 2) == "mix:2*bulk+4*bulk"


def test_bursts_have_means_and_not_too_many_are_expected():
    asked = WORKLOAD.parse("on-off:1MiB/2s")
    assert asked == Bursting(mean_bytes=2**20, mean_gap_ns=2 * SECOND) == WORKLOAD.parse(shown(asked))
    assert msgspec.convert(msgspec.to_builtins(asked), Asked) == asked
    many = WORKLOAD.parse("on-off:1B/1ms")
    assert list(impossible(asked, SECOND)) == list(impossible(many, 99 * SECOND)) == []
    assert list(impossible(many, 100 * SECOND)) == ["expected at most 100000 bursts, found about 100001"]


def test_a_trial_has_a_million_messages_at_most():
    pattern = Pattern(bytes=1, interval_ns=30_000)
    assert list(impossible(pattern, 30 * SECOND)) == []
    assert list(impossible(pattern, 30 * SECOND + 1)) == ["expected at most 1000000 messages, found 1000001"]
    assert list(impossible(None, 30 * SECOND)) == list(impossible(pattern, None)) == []


def test_messages_are_due_from_the_beginning_and_not_at_the_end():
    assert Pattern(bytes=1, interval_ns=100 * MS).lasting(SECOND).count == 10
    assert Pattern(bytes=1, interval_ns=100 * MS).lasting(SECOND + 1).count == 11
    assert Pattern(bytes=1, interval_ns=3 * SECOND).lasting(SECOND).count == 1
