"""The page: text stays text, data stays data, and it holds no more than a screen shows."""

import itertools
import json
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from mptune._text import escaped
from mptune.decision.model_error import OnKernel
from mptune.errors import Failure
from mptune.report.answer import answer
from mptune.report.choices import choices
from mptune.report.markup import MAX_ROWS, data, prose, table
from mptune.report.page import page
from mptune.report.sections import Table
from mptune.result.run_data import RunData, TrialRow
from mptune.result.screen import in_sentences
from tests.report.making import sections


class Parsed(HTMLParser):
    """Elements with their attributes, and the text of each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self._inside = [""]
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.setdefault(self._inside[-1], []).append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def html(optimised: RunData, transfers: RunData) -> str:
    hostile = msgspec.structs.replace(transfers, label="<b>other</b>")
    return page(optimised, [hostile], sections(optimised, [hostile]))


@pytest.fixture(scope="module")
def parsed(html: str) -> Parsed:
    return Parsed(html)


def test_names_make_no_elements(parsed: Parsed, html: str, site_name: str, isp_name: str) -> None:
    scripts = parsed.named("script")
    assert [script.get("type") for script in scripts] == [*["application/json"] * 3, None, None]
    assert not parsed.named("img") and not parsed.named("b")
    assert not [name for _, attributes in parsed.elements for name in attributes if name.startswith("on")]
    assert any(site_name in text for text in parsed.text["title"])
    assert any(isp_name[:6] in text for text in parsed.text["text"])
    assert "alert(1)" in html


def test_nothing_in_it_points_elsewhere(parsed: Parsed) -> None:
    for _, attributes in parsed.elements:
        for name in ("src", "href", "action", "data", "poster"):
            target = attributes.get(name)
            assert target is None or target.startswith(("#", "data:"))
    (policy,) = [tag["content"] for tag in parsed.named("meta") if "http-equiv" in tag]
    assert policy is not None and policy.startswith("default-src 'none'")


def test_data_cannot_end_its_block() -> None:
    content = {"name": "</script><script>alert(1)</script><!--", "n": [1, None]}
    block = data("x", content)
    assert block.count("<") == 2
    assert json.loads(block.partition(">")[2].rpartition("<")[0]) == content


def test_the_answer_and_every_choice_are_there(parsed: Parsed, optimised: RunData) -> None:
    assert optimised.answer is not None
    printed = "".join(text for element in ("p", "span") for text in parsed.text[element])
    for sentence in optimised.answer.answer[1:]:
        assert sentence in printed
    assert set(optimised.answer.subflows) <= set(parsed.text["span"])
    (slider,) = [tag for tag in parsed.named("input") if tag.get("id") == "sacrifice"]
    assert slider["max"] == str(len(optimised.answer.pareto) - 1)


def test_what_the_terminal_prints_of_it_stands_above_the_slider(html: str, optimised: RunData) -> None:
    assert optimised.answer is not None
    gives, why = in_sentences(optimised.answer)
    assert "Mbit/s" in gives and f'<p class="gains">{escaped(gives)}</p>' in html
    assert html.index(escaped(gives)) < html.index('id="sacrifice"')
    assert why == "" or html.index(escaped(why)) < html.index('id="sacrifice"')


@pytest.mark.parametrize(
    ("expected", "expected_text"),
    [
        (OnKernel(20.0, low_mbps=12.5, high_mbps=31.0, runs=5), "<td>12.50 to 31.00</td>"),
        (OnKernel(20.0, unknown="<b> is not validated"), "no estimate: &lt;b&gt; is not validated"),
        (None, ""),
    ],
)
def test_the_error_to_expect_on_a_kernel_stands_beside_the_confirmation(
    optimised: RunData, expected: OnKernel | None, expected_text: str
) -> None:
    assert optimised.answer is not None
    changed = msgspec.structs.replace(optimised.answer, on_kernel=expected)
    run = msgspec.structs.replace(optimised, answer=changed)
    answered = answer(run, choices(run), "")
    assert expected_text in answered and ('class="on-kernel"' in answered) == (expected is not None)


def test_headings_do_not_skip_a_level(parsed: Parsed) -> None:
    levels = [int(tag[1]) for tag, _ in parsed.elements if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))


def test_identifiers_are_unique_and_links_lead_somewhere(parsed: Parsed) -> None:
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {link["href"] for link in parsed.named("a")}
    assert links <= {f"#{name}" for name in ids}


def test_a_long_table_is_cut_and_names_the_file_with_the_rest() -> None:
    rows: list[dict[str, Any]] = [
        {"buffer_mib": float(i), "cc": "<i>", "good": True} for i in range(MAX_ROWS + 7)
    ]
    text = table(Table(title="many", rows=rows, source="all.csv"))
    assert text.count("<tr>") == MAX_ROWS + 1
    assert text.endswith("<p>7 more rows: all.csv.</p>")
    assert "buffer (MiB)" in text and "&lt;i&gt;" in text and "<td>yes</td>" in text


def test_numbers_are_short_and_have_no_exponent() -> None:
    rows: list[dict[str, Any]] = [{"a": 1234567.0, "b": 0.1234567, "c": None}]
    assert '<td class="number">1234600</td><td class="number">0.12346</td><td></td>' in table(
        Table(title="t", rows=rows)
    )


def test_labels_of_paths_are_not_broken_at_their_hyphens() -> None:
    text = prose("X-Y: send on Y-X, T-U-T and <T-U>.", ["T-U", "Y-X"])
    assert (
        text == 'X-Y: send on <span class="path">Y-X</span>, T-U-T and &lt;<span class="path">T-U</span>&gt;.'
    )
    assert prose("send on T-U", ()) == "send on T-U"
    cell = table(Table(title="t", rows=[{"standby": "T-U, <U-B>, T-B, T-P, and-so-on-to-the-end"}]))
    assert cell.count('<span class="path">') == 4 and '&lt;<span class="path">U-B</span>&gt;' in cell


def test_failures_and_a_poor_fit_stand_at_the_top(optimised: RunData) -> None:
    def broken(row: TrialRow) -> TrialRow:
        return msgspec.structs.replace(
            row, failed=Failure("overloaded", "overloaded: <late>"), throughput_mbps=None
        )

    assert optimised.answer is not None
    poor = "pcdc: R-square is 0.80 & <below> 0.90."
    run = msgspec.structs.replace(
        optimised,
        trials=(*(broken(trial) for trial in optimised.trials[:2]), *optimised.trials[2:]),
        answer=msgspec.structs.replace(optimised.answer, warnings=(poor,)),
        foreign=3,
    )
    text = page(run, [], sections(run))
    warnings = text.partition('id="warnings"')[2].partition("</section>")[0]
    assert "too busy for real time: 2." in warnings
    assert "pcdc: R-square is 0.80 &amp; &lt;below&gt; 0.90." in warnings and warnings.count("R-square") == 1
    assert "3 trials of other campaigns" in warnings
    assert "overloaded: &lt;late&gt;" in text.partition('id="measured"')[2]


def test_a_sweep_lists_its_failures(transfers: RunData) -> None:
    first, *rest = transfers.trials
    lost = msgspec.structs.replace(first, failed=Failure("died", "gone"), completion_s=None)
    run = msgspec.structs.replace(transfers, trials=(lost, *rest))
    assert f"1 of {len(run.trials)} trials failed" in page(run, [], sections(run))


def test_a_sweep_names_the_best_it_saw(paths: RunData, transfers: RunData) -> None:
    best = max(paths.swept, key=lambda row: row.throughput_mbps or 0)
    text = page(paths, [], sections(paths))
    assert f"{len(paths.trials)} observations; a sweep makes no recommendation." in text
    assert f"and initial path {best.initial_path}." in text
    assert "Shortest mean completion time of 64 KiB" in page(transfers, [], sections(transfers))
