"""Compare two releases of torch in what this project uses of them, so that a port starts from a list.

    python tests/torch_names.py OLD NEW

OLD and NEW are wheels of torch, or folders that hold `torch/`; nothing of them is imported. Four lists
are printed, each empty if nothing was found:

    gone          names that we import, read or replace, which OLD has and NEW has not; with the modules
                  of NEW that define one of that name
    new           such names that only NEW has: of them we have facts already
    arguments     functions that we replace or call, whose arguments differ
    words         names of attributes in our code that occur in OLD's Dynamo and nowhere in NEW's

The exit status is 1 if anything is gone.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

OURS = Path(__file__).resolve().parent.parent / "graphmend_bc"
DYNAMO = "torch/_dynamo/"
"""Where attributes of Dynamo's objects are defined."""


class Release:
    """The sources of one release.

    Args:
        path: a wheel, or a folder with `torch/` in it.

    Raises:
        ValueError: it holds no sources of torch.
    """

    def __init__(self, path: Path) -> None:
        if path.is_dir():
            found = sorted(path.glob("torch/**/*.py"))
            texts = {str(file.relative_to(path)): file.read_bytes() for file in found}
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as wheel:
                names = [
                    n for n in wheel.namelist() if n.startswith("torch/") and n.endswith(".py")
                ]
                texts = {name: wheel.read(name) for name in names}
        else:
            raise ValueError(f"{path} is no wheel and no folder.")
        if not texts:
            raise ValueError(f"{path} holds no sources of torch.")
        self._texts = texts
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """A module by its dotted name; None if there is none."""
        if name not in self._modules:
            place = name.replace(".", "/")
            files = [f for f in (f"{place}/__init__.py", f"{place}.py") if f in self._texts]
            parsed = [Module(name, f.endswith("__init__.py"), self._texts[f]) for f in files]
            self._modules[name] = parsed[0] if parsed else None
        return self._modules[name]

    def find(self, path: str) -> ast.AST | None:
        """The definition of a dotted name; a module's tree for a module; None if there is none.

        What is defined by code that runs, such as a generated method, is not found.
        """
        parts = path.split(".")
        for length in range(len(parts), 0, -1):
            module = self.module(".".join(parts[:length]))
            if module is not None:
                return self._within(module, parts[length:], 0)
        return None

    def _within(self, module: Module, parts: Sequence[str], depth: int) -> ast.AST | None:
        if not parts:
            return module.tree
        if depth > 8:
            return None
        name, *rest = parts
        if (found := module.defined.get(name)) is not None:
            return self._member(module, found, rest, depth)
        if (origin := module.imported.get(name)) is not None:
            return self._follow(origin, rest, depth)
        for origin in module.stars:
            other = self.module(origin)
            at = None if other is None else self._within(other, parts, depth + 1)
            if at is not None:
                return at
        return None

    def _follow(self, origin: str, rest: Sequence[str], depth: int) -> ast.AST | None:
        head, _, last = origin.rpartition(".")
        if (module := self.module(origin)) is not None:
            return self._within(module, rest, depth + 1)
        module = self.module(head)
        return None if module is None else self._within(module, [last, *rest], depth + 1)

    def _member(
        self, module: Module, found: ast.AST, rest: Sequence[str], depth: int
    ) -> ast.AST | None:
        if not rest or not isinstance(found, ast.ClassDef):
            return found
        own = {name: node for node in found.body for name in _names_of(node)}
        if rest[0] in own:
            return own[rest[0]]
        bases = [ast.unparse(base).split("[")[0].split(".") for base in found.bases]
        inherited = (self._within(module, [*base, *rest], depth + 1) for base in bases)
        return next((node for node in inherited if node is not None), None)

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name and attribute that occurs in Dynamo's sources."""
        files = (name for name in self._texts if name.startswith(DYNAMO))
        modules = map(self.module, map(_module_of, files))
        return frozenset(w for m in modules if m is not None for w in _words(m.tree))

    def defining(self, name: str) -> list[str]:
        """The modules of Dynamo and FX whose top level defines a name."""
        places = [n for n in self._texts if n.startswith((DYNAMO, "torch/fx/", "torch/_guards"))]
        modules = map(self.module, map(_module_of, places))
        return [m.name for m in modules if m is not None and name in m.defined]


def _module_of(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@dataclass
class Module:
    """One module.

    Attributes:
        name: dotted.
        is_package: relative imports start from itself.
        text: its source.
    """

    name: str
    is_package: bool
    text: bytes
    stars: list[str] = field(default_factory=list)

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def defined(self) -> dict[str, ast.AST]:
        """What its top level defines, by name; the last definition counts."""
        return {name: node for node in _statements(self.tree) for name in _names_of(node)}

    @cached_property
    def imported(self) -> dict[str, str]:
        """What its top level imports, by the name that it has here."""
        found: dict[str, str] = {}
        for node in _statements(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.split(".")[0]
                    found[name] = alias.name if alias.asname else name
            elif isinstance(node, ast.ImportFrom):
                origin = self._origin(node)
                for alias in node.names:
                    if alias.name == "*":
                        self.stars.append(origin)
                    else:
                        found[alias.asname or alias.name] = f"{origin}.{alias.name}"
        return found

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        base = parts[: len(parts) - node.level + self.is_package]
        return ".".join([*base, *filter(None, [node.module])])


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module's top level, those under `if` and `try` included."""
    work: list[ast.stmt] = list(tree.body)
    while work:
        node = work.pop(0)
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            work += [*node.body, *getattr(node, "orelse", [])]
            work += [s for handler in getattr(node, "handlers", []) for s in handler.body]


def _names_of(node: ast.AST) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _words(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, (ast.arg, ast.keyword)) and node.arg:
            yield node.arg


def names_used(package: Path) -> set[str]:
    """The dotted names of torch that a package's sources import or read through what they import."""
    found: set[str] = set()
    for file in sorted(package.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        roots = {"torch": "torch"}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
                roots |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            elif isinstance(node, ast.Import):
                roots |= {a.asname: a.name for a in node.names if a.asname and "torch" in a.name}
                found |= {a.name for a in node.names if a.name.split(".")[0] == "torch"}
        found |= {path for name, path in roots.items() if name != "torch"}
        found |= {path for node in ast.walk(tree) if (path := _dotted(node, roots))}
    return {path for path in found if path.startswith("torch.")}


def _dotted(node: ast.AST, roots: dict[str, str]) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    known = roots.get(node.id) if isinstance(node, ast.Name) else None
    return ".".join([known, *parts]) if known and parts else ""


def seams() -> set[str]:
    """The dotted names of all that is replaced in torch."""
    from graphmend_bc.dynamo.patches.table import SEAMS

    places = [(s.owner, name) for s in SEAMS for name in s.names]
    places += [place for s in SEAMS for place in s.also]
    return {f"{owner.replace(':', '.')}.{name}" for owner, name in places if isinstance(name, str)}


def attributes_used(package: Path) -> set[str]:
    """The names of attributes that the sources of a package read, as far as they are our own."""
    trees = [ast.parse(f.read_text(encoding="utf-8")) for f in sorted(package.rglob("*.py"))]
    read = {n.attr for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    ours = {name for tree in trees for n in ast.walk(tree) for name in _names_of(n)}
    return read - ours


def compare(old: Release, new: Release, names: set[str]) -> dict[str, list[str]]:
    """What differs, by the names of the lists.

    Args:
        old, new: the releases.
        names: dotted names.
    """
    lists: dict[str, list[str]] = {"gone": [], "new": [], "arguments": [], "words": []}
    for name in sorted(names):
        before, after = old.find(name), new.find(name)
        if before is not None and after is None:
            others = new.defining(name.rpartition(".")[2])
            lists["gone"].append(f"{name}{'; see ' + ', '.join(others) if others else ''}")
        elif after is not None and before is None:
            lists["new"].append(name)
        elif isinstance(before, ast.FunctionDef) and isinstance(after, ast.FunctionDef):
            was, now = (ast.unparse(node.args) for node in (before, after))
            if was != now:
                lists["arguments"].append(f"{name}({was}) -> ({now})")
    lists["words"] = sorted((attributes_used(OURS) & old.words) - new.words)
    return lists


def main(argv: Sequence[str]) -> int:
    """Compare, and print the lists."""
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        old, new = (Release(Path(path)) for path in argv)
    except (OSError, ValueError) as error:
        print(f"{error} Give two wheels of torch, or folders with torch/ in them.", file=sys.stderr)
        return 2
    lists = compare(old, new, names_used(OURS) | seams())
    for title, lines in lists.items():
        print(f"{title}: {len(lines)}")
        print("".join(f"    {line}\n" for line in lines), end="")
    return 1 if lists["gone"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
