"""Loads from elsewhere, as the check of the built site finds them; `make docs` runs it on the site."""

import importlib

import pytest

from tests.plugins.needs import ROOT


@pytest.fixture
def fetched(monkeypatch, tmp_path):
    """Findings of the check in a site of one file."""
    monkeypatch.syspath_prepend(str(ROOT / "shipping"))
    check = importlib.import_module("check_site")

    def look(name, text):
        (tmp_path / name).write_text(text)
        return [line.rpartition(": ")[2] for line in check.fetched(tmp_path)]

    return look


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.html", '<script src="https://cdn.example/a.js"></script>', ["https://cdn.example/a.js"]),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/a.css">', ["//fonts.example/a.css"]),
        ("a.html", '<img src="http://example.org/a.png">', ["http://example.org/a.png"]),
        ("a.html", '<a href="https://example.org">x</a><link rel="canonical" href="https://a.b/">', []),
        ("a.html", '<script src="assets/a.js"></script><img src="data:image/png;base64,AA==">', []),
        ("a.css", 'p { background: url("https://example.org/a.png") }', ["https://example.org/a.png"]),
        ("a.css", "p { background: url(../images/a.svg) }", []),
    ],
)
def test_what_a_browser_would_load_is_listed_and_links_are_not(fetched, name, text, expected):
    assert fetched(name, text) == expected
