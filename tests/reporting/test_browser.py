"""The page in a browser: it draws without an error, fits, and can be read by everyone.

It needs Chromium, playwright, and npm for axe-core; docs/testing.md says how to get them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import python

pytest.importorskip("drawsvg")
pytest.importorskip("fast_sugiyama")
sync_api = pytest.importorskip("playwright.sync_api")

AXE = "axe-core@4.11.0"

PROGRAM = """
import torch

def scaled(x):
    if x.sum() > 3:
        x = x * 3
    return x

def step(x, seen):
    y = x * 2
    print("largest:", y.max())
    y = scaled(y)
    torch._dynamo.graph_break()
    while y.sum() > 100:
        y = y / 2
    if y.mean() > 1:
        seen.append("<b>large</b>")
        return y - 1
    return y + 1

compiled = torch.compile(step, backend="eager")
for number in range(12):
    compiled(torch.ones(3) * (-1 if number % 4 == 3 else 1), [])
"""


def browser_path() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("There is no Chromium here.")
    return found


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("There is no npm here, which fetches axe-core.")
    folder = tmp_path_factory.mktemp("npm")
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder, AXE],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"npm cannot fetch {AXE}.")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = browser_path()
    with sync_api.sync_playwright() as play:
        running = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module", params=["run", "explain"])
def page_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "program.py").write_text(PROGRAM)
    options = ("--report", "page.html", "program.py")
    done = python("-m", "graphmend_bc", request.param, *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "page.html"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_in_a_browser(
    browser: Any, axe: str, page_file: Path, width: int, scheme: str
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(page_file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("svg.chain").count() >= 2
    assert page.locator("svg.flow").count() >= 2
    page.evaluate(axe)
    found = page.evaluate("axe.run()")
    bad = [(v["id"], v["impact"], v["nodes"][0]["html"]) for v in found["violations"]]
    assert (bad, said) == ([], [])
    assert "color-contrast" in {p["id"] for p in found["passes"]}
    context.close()


@pytest.mark.slow
def test_the_filter_and_links_into_closed_parts(browser: Any, page_file: Path) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    rows = page.locator("#rows > details")
    assert rows.count() > 2
    page.select_option("#kind", "declined")
    declined = [row for row in rows.all() if row.is_visible()]
    assert {row.get_attribute("data-kind") for row in declined} == {"declined"}
    page.fill("#text", "no such text")
    assert not any(row.is_visible() for row in rows.all())
    code = page.locator("#code-1")
    assert code.get_attribute("open") is None
    page.evaluate("location.hash = 'code-1'")
    page.wait_for_function("document.getElementById('code-1').open")
    assert code.locator("table").is_visible()
    page.close()
