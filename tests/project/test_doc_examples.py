"""The examples of the docs that are whole programs run as they are printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from tests.doc_examples import TORCH, Block, blocks, commands, is_as_printed
from tests.fuzz.__main__ import options
from tests.processes import forked, python

ROOT = Path(__file__).parents[2]


RUN = [
    "README.md",
    *(
        f"docs/{page}.md"
        for page in (
            "breaks",
            "how-it-works",
            "index",
            "recipes",
            "report",
            "settings",
            "start",
            "testing",
            "trouble",
            "trust",
            "writing-a-rule",
        )
    ),
]
"""Pages whose examples are whole programs."""

BLOCKS = [block for page in RUN for block in blocks(ROOT, page)]
PROGRAMS = [block for block in BLOCKS if block.language == "python"]

PINNED = re.search(r"^torch==(.*)$", (ROOT / "constraints.txt").read_text(), re.M)
"""The torch whose counts and names of breaks the pages show."""
assert PINNED is not None
IS_PINNED = TORCH.base_version == PINNED[1]


@pytest.mark.parametrize("block", PROGRAMS, ids=[block.name for block in PROGRAMS])
def test_programs(block: Block, tmp_path: Path) -> None:
    if lack := block.lacks():
        pytest.skip(lack)
    (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    out, _ = forked(
        f"import os, runpy\nos.chdir({str(tmp_path)!r})\n"
        f"runpy.run_path({block.title!r}, run_name='__main__')"
    )
    if block.output is not None and IS_PINNED:
        assert is_as_printed(block.output, out), out


def test_each_page_has_an_example() -> None:
    assert {block.page for block in BLOCKS} == set(RUN)


@pytest.mark.slow
@pytest.mark.skipif(not IS_PINNED, reason="The pages show what another torch says.")
@pytest.mark.parametrize(
    ("page", "least"), [("docs/start.md", 4), ("docs/cli.md", 1), ("docs/trust.md", 4)]
)
def test_commands(page: str, least: int, tmp_path: Path) -> None:
    """Those of a page, each with the programs that stand above it."""
    ran = 0
    for block in blocks(ROOT, page):
        if block.language == "python":
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
            continue
        for command, said in commands(block.text):
            words = shlex.split(command)
            settings = dict(
                w.split("=", 1) for w in takewhile(re.compile(r"[A-Z_]+=").match, words)
            )
            name, *arguments = words[len(settings) :]
            module = {"graphmend-bc": "graphmend_bc", "pytest": "pytest"}.get(name)
            if module is None:
                continue
            env = {"PYTHONPATH": str(ROOT), **settings}
            done = python("-m", module, *arguments, cwd=tmp_path, env=env)
            assert is_as_printed(said, done.stdout + done.stderr), done.stdout + done.stderr
            ran += 1
    assert ran >= least


def test_the_rule_of_the_docs_mends() -> None:
    (example,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/breaks.md").read_text(encoding="utf-8"), re.S
    )
    out, _ = forked(example)
    assert out.count("Mend(strategy='polyfill'") == 1
    assert "gb_type='Attempted to call function marked as skipped'" in out
    with pytest.raises(Exception, match=r"zlib|crc32"):  # it is the rule that mends
        forked(re.sub(r"gm\.register_rule\(.*\)\n", "", example))


@pytest.mark.slow
@pytest.mark.skipif(
    not IS_PINNED or sys.version_info[:2] != (3, 11), reason="They are drawn with other versions."
)
def test_pictures_are_those_of_the_programs() -> None:
    for library in ("drawsvg", "fast_sugiyama"):
        pytest.importorskip(library)
    out, _ = forked(
        "import sys, runpy\n"
        f"script = runpy.run_path({str(ROOT / 'docs/make_pictures.py')!r})\n"
        "for name, draw in script['PICTURES'].items():\n"
        "    old = (script['IMAGES'] / f'{name}.svg').read_text(encoding='utf-8')\n"
        "    print(name, draw() == old)"
    )
    assert out.split() == ["branch", "True", "chain", "True", "call", "True"], (
        "Run `python docs/make_pictures.py`."
    )


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Those of a page, as GitHub and the site make them of headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    links = [
        (page, *link)
        for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
        for link in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", prose(page))
    ]
    assert len(links) > 150
    for page, link, anchor in links:
        target = page.parent / link if link else page
        assert target.exists(), f"{page.name}: {link}"
        # The anchors of api.md are names that the site makes of docstrings.
        if anchor and target.suffix == ".md" and target.name != "api.md":
            assert anchor in anchors(target), f"{page.name}: {link}#{anchor}"


def test_figures_are_those_that_were_measured() -> None:
    """Medians of the page that says when not to use it, which are rows of another page."""
    calls = (ROOT / "docs/performance.md").read_text().partition("<!-- table: calls -->")[2]
    calls = calls.partition("<!-- end of table -->")[0]
    measured = {}
    for line in re.findall(r"^\| (.*) \|$", calls, re.M)[2:]:
        name, _, _, *cells = (cell.strip() for cell in line.split("|"))
        measured[name] = [cell.split(" [")[0] for cell in cells[:4]]
    rows = re.findall(r"^\| ([^|]+) \| (.*) \|$", (ROOT / "docs/when-not.md").read_text(), re.M)
    shown = {
        name: [c.strip() for c in cells.split("|")] for name, cells in rows if name in measured
    }
    assert len(shown) > 5
    assert shown == {name: measured[name] for name in shown}


def test_what_came_of_the_tests_is_what_other_pages_say() -> None:
    """Each figure of a row stands on the page that the row links to."""
    table = (ROOT / "docs/trust.md").read_text().partition("<!-- table: trust -->\n")[2]
    rows = table.partition("<!-- end of table -->")[0].splitlines()[2:]
    assert len(rows) > 5
    for row in rows:
        _, ran, came_to, command, _ = (cell.strip() for cell in row.split("|"))
        (page,) = re.findall(r"\]\((\w+\.md)#", came_to)
        text = (ROOT / "docs" / page).read_text().replace(",", "")
        told = re.sub(r"\(\[.*\)\)", "", f"{ran} {came_to}").replace(",", "")
        figures = re.findall(r"(?<!\w)\d[\d.]*", told)
        assert len(figures) > 2, row
        assert [f for f in figures if not re.search(rf"\b{re.escape(f)}\b", text)] == [], row
        parts = command.strip("`").split(" ARGS=")
        assert [part for part in parts if part.strip('"') not in text] == [], row


PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
_SUFFIXES = (".py", ".c", ".h", ".md", ".html", ".json", ".toml", ".txt")


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_files_that_are_named_exist(page: Path) -> None:
    """Also by the end of their path: `engine/state.py` is a file of the package."""
    named = [name for name in re.findall(r"`([\w./-]+)`", prose(page)) if name.endswith(_SUFFIXES)]
    missing = [name for name in named if "/" in name and not _exists(name)]
    assert not missing


def _exists(name: str) -> bool:
    homes = (ROOT, ROOT / "graphmend_bc", ROOT / "graphmend_bc" / "dynamo", ROOT / "docs")
    return any((home / name).exists() for home in homes)


def test_folders_and_modules_that_contributing_names_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:graphmend_bc|tests|csrc|benchmarks|docs)/[\w./-]+)`", text)
    assert len(named) > 40
    assert [name for name in named if not (ROOT / name).exists()] == []


MADE = sorted(
    {
        command
        for page in PAGES
        for command in re.findall(r"(?:`|^)(make [^`#\n]*[^`#\s])", page.read_text("utf-8"), re.M)
    }
)


@pytest.mark.slow
def test_targets_of_make_are_there() -> None:
    """Each call of make in the docs; nothing of it runs."""
    assert len(MADE) > 20
    for command in MADE:
        done = subprocess.run(
            ["make", "-n", *shlex.split(command)[1:]], cwd=ROOT, capture_output=True, text=True
        )
        assert not done.returncode, f"{command}: {done.stderr}"


def test_options_of_generated_programs_are_there() -> None:
    calls = {
        call
        for page in PAGES
        for call in re.findall(r"`python -m tests\.fuzz ([^`]*)`", page.read_text("utf-8"))
    }
    assert len(calls) > 2
    for call in calls:
        assert options().parse_args(shlex.split(call)).count > 0
