"""CITATION.cff: what the format requires, and the same facts as elsewhere in the repository."""

import re
from datetime import date
from pathlib import Path

import yaml

from mptune import __version__
from mptune.papers import published
from tests.plugins.needs import ROOT

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
#: Required of the file, and of each reference (Citation File Format 1.2.0).
REQUIRED = {"authors", "cff-version", "message", "title"}
REQUIRED_OF_REFERENCES = {"authors", "title", "type"}


def test_it_has_what_the_format_requires():
    assert set(CITATION) >= REQUIRED and CITATION["cff-version"] == "1.2.0"
    assert CITATION["authors"] == [{"name": "The mptune developers"}]
    for reference in CITATION["references"]:
        assert set(reference) >= REQUIRED_OF_REFERENCES
        assert all({"family-names", "given-names"} == set(author) for author in reference["authors"])
        assert reference["type"] == "article" or {"name", "city", "country"} <= set(reference["conference"])


def test_it_is_of_this_version_and_its_day():
    assert CITATION["version"] == __version__
    assert isinstance(CITATION["date-released"], date)


def test_it_names_the_five_papers_that_the_facts_come_from():
    readme = Path(published.__file__).with_name("README.md").read_text(encoding="utf-8")
    papers = re.findall(r"^\| \w+ \| \d{3} \| (\w+) et al\., \*(.*?)\*, .* (\d{4}) \|$", readme, re.M)
    assert len(papers) == 5
    assert {(name, title.lower(), int(year)) for name, title, year in papers} == {
        (reference["authors"][0]["family-names"], reference["title"].lower(), reference["year"])
        for reference in CITATION["references"]
    }
