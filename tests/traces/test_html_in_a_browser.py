"""The page of a report as a real browser shows it: narrow, wide, dark, and on paper."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.traces.browser import Tab, browser, executable
from tests.traces.fixture import fixture, write
from tests.traces.test_html import RECORDING, drawn
from traces.generate.small import IN_CALLS, injected
from traces.html.page import page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

UNFOLD = "document.querySelectorAll('details').forEach(one => { one.open = true })"
WIDER = "document.documentElement.scrollWidth - innerWidth"
DRAWINGS = """[...document.querySelectorAll('svg')].map(svg => {
  const {width, height} = svg.getBoundingClientRect();
  return [Math.round(width), Math.round(height)];
})"""
# Text of a drawing that its own frame cuts off.
CUT = """[...document.querySelectorAll('svg text')].filter(text => {
  const [mine, frame] = [text, text.ownerSVGElement].map(one => one.getBoundingClientRect());
  return mine.width && (mine.left < frame.left - 2 || mine.right > frame.right + 2
    || mine.top < frame.top - 2 || mine.bottom > frame.bottom + 2);
}).map(text => text.textContent)"""
# Of each diagram, how much its frame hides, and the height of its letters.
DIAGRAMS = """[...document.querySelectorAll('.witness .drawing')].map(frame => {
  const svg = frame.querySelector('svg');
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return [frame.scrollWidth - frame.clientWidth, 12 * scale];
})"""
# checkVisibility() knows what a folded `details` hides.
FOLDED_AWAY = """[...document.querySelectorAll('details *')]
  .filter(element => !element.checkVisibility()).length"""
# Words that are too pale, by the measure of WCAG 2 for small text.
PALE = """(() => {
  const rgb = text => (text.match(/[0-9.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = rgb(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const contrast = element => {
    const [a, b] = [rgb(getComputedStyle(element).color), behind(element)].map(light);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  return [...document.querySelectorAll('.chip, .cell, .quiet, figcaption, td, th, dt, dd, a, p')]
    .filter(element => element.innerText && contrast(element) < 4.5)
    .map(element => `${element.className} ${element.innerText} ${contrast(element)}`);
})()"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    program = executable()
    if program is None:
        pytest.skip("no browser on PATH: install chromium, or name one in HIGHWATER_BROWSER")
    with browser(program, tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    lines, meta = injected(fixture(2), IN_CALLS["lost"])
    meta["faults"] = [
        {"at_ns": 1_100, "what": "kill -9 broker 2"},
        {"at_ns": 1_300, "what": "rain"},
    ]
    runs = {"allowed": drawn(RECORDING), "violated": drawn(write(folder / "run", lines, meta))}
    content = {name: page([one], {0: seen}) for name, (one, seen) in runs.items()}
    content["both"] = page([one for one, _ in runs.values()], {1: runs["violated"][1]})
    for name, whole in content.items():
        (folder / f"{name}.html").write_bytes(whole)
    return {name: folder / f"{name}.html" for name in content}


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", ["allowed", "violated", "both"])
def test_a_page_opens_without_complaint_and_fits(
    name: str, width: int, tab: Tab, pages: dict[str, Path]
) -> None:
    tab.open(pages[name], width)
    assert tab.value(WIDER) <= 0
    tab.value(UNFOLD)
    assert tab.value(WIDER) <= 0, "what was folded is wider than the page"
    assert tab.complaints() == []
    assert tab.loaded() == [pages[name].as_uri()]
    sizes = tab.value(DRAWINGS)
    assert len(sizes) > 5
    assert all(across > 200 and down > 60 for across, down in sizes), sizes
    assert tab.value(CUT) == []


@pytest.mark.parametrize("name", ["allowed", "violated"])
def test_on_a_telephone_a_diagram_is_seen_whole_and_can_be_read(
    name: str, tab: Tab, pages: dict[str, Path]
) -> None:
    tab.open(pages[name], 400)
    tab.value(UNFOLD)
    diagrams = tab.value(DIAGRAMS)
    assert diagrams
    assert all(hidden <= 0 and letters >= 8 for hidden, letters in diagrams), diagrams


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_word_stands_out_from_what_is_behind_it(
    dark: bool, tab: Tab, pages: dict[str, Path]
) -> None:
    tab.open(pages["both"], 1280, dark=dark)
    tab.value(UNFOLD)
    assert tab.value("getComputedStyle(document.body).backgroundColor") == (
        "rgb(18, 23, 29)" if dark else "rgb(255, 255, 255)"
    )
    assert tab.value(PALE) == []


def test_on_paper_everything_is_unfolded_and_dark_is_light(
    tab: Tab, pages: dict[str, Path]
) -> None:
    tab.open(pages["allowed"], 1000, dark=True, paper=True)
    assert tab.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.value("document.querySelectorAll('details:not([open])').length") > 5
    assert tab.value(FOLDED_AWAY) == 0
    assert tab.value("document.querySelector('.wide').scrollWidth") <= 1000


def test_a_link_to_a_witness_unfolds_it(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["allowed"], 1280)
    open_now = "document.getElementById('run-1-G8-5').closest('details.found').open"
    assert tab.value(open_now) is False
    tab.value("location.hash = '#run-1-G8-5'")
    assert tab.value(open_now) is True
    assert tab.value("document.getElementById('run-1-G8-5').getBoundingClientRect().top") < 900
    assert tab.complaints() == []
