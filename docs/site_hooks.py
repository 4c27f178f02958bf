"""What the site needs besides the pages.

* The files beside `docs`: in the repository a page links to `../CONTRIBUTING.md`, and on the site
  that is a page like the others.
* Docstrings as mkdocstrings reads them: it shows `Examples:` as code, and `Example:` as text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from griffe import Extension

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie beside `docs`."""
    from mkdocs.structure.files import File

    for name in BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Let links to those pages lead to the site's."""
    return re.sub(rf"\]\(\.\./({'|'.join(map(re.escape, BESIDE))})", r"](\1", markdown)


class Examples(Extension):
    """Name the section of examples as griffe does."""

    def on_object(self, *, obj: Any, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")
