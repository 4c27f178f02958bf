"""What may stand in a setting: checked when it is set, in code or from the environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Literal, Protocol, SupportsIndex

PREFIX = "GRAPHMEND_BC_"
"""What the environment variable of a setting begins with; its name in capitals follows."""


class SettingKind(Protocol):
    """What may stand in a setting. `read` and `parse` raise ValueError for anything else."""

    @property
    def valid(self) -> str:
        """The valid values, after "it must be"."""

    @property
    def valid_outside(self) -> str:
        """The texts of an environment variable that stand for them."""

    def read(self, value: Any) -> Any:
        """The value as it is kept."""

    def parse(self, text: str) -> Any:
        """What a text of the environment stands for."""


@dataclass(frozen=True)
class Switch:
    """True or False."""

    valid: ClassVar[str] = "True or False"
    valid_outside: ClassVar[str] = "0 or 1"

    def read(self, value: Any) -> bool:
        return bool(_of_type(value, bool))

    def parse(self, text: str) -> bool:
        return bool(("0", "1").index(text))


@dataclass(frozen=True)
class Count:
    """A whole number."""

    least: int = 0

    @property
    def valid(self) -> str:
        return f"a whole number, {self.least} or more"

    valid_outside = valid

    def read(self, value: Any) -> int:
        if isinstance(value, bool) or _of_type(value, int) < self.least:
            raise ValueError(value)
        return int(value)

    def parse(self, text: str) -> int:
        return self.read(int(text))


@dataclass(frozen=True)
class Text:
    """Any text, or a path."""

    valid: ClassVar[str] = "a str or a path"
    valid_outside: ClassVar[str] = "a text"

    def read(self, value: Any) -> str:
        return str(_of_type(os.fspath(value), str))

    def parse(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class Choice:
    """One of some texts."""

    texts: tuple[str, ...]

    @property
    def valid(self) -> str:
        return " or ".join(map(repr, self.texts))

    @property
    def valid_outside(self) -> str:
        return " or ".join(self.texts)

    def read(self, value: Any) -> str:
        if value not in self.texts:
            raise ValueError(value)
        return str(value)

    def parse(self, text: str) -> str:
        return self.read(text)


OnError = Literal["raise", "warn"]
ON_ERROR = Choice(("raise", "warn"))
"""What becomes of a program whose Python or torch is refused."""


@dataclass(frozen=True)
class Names:
    """Any of some names.

    Attributes:
        known: gives the names; asked when one is checked.
        known_outside: True if they are known when the environment is read.
    """

    known: Callable[[], Iterable[str]]
    known_outside: bool = True

    @property
    def valid(self) -> str:
        return f"a tuple of any of {', '.join(map(repr, self.known()))}"

    @property
    def valid_outside(self) -> str:
        return f"any of {', '.join(self.known())}, separated by commas"

    def read(self, value: Any) -> tuple[str, ...]:
        names = tuple(_of_type(value, (tuple, list, set, frozenset)))
        if names and not set(self.known()).issuperset(names):
            raise ValueError(value)
        return names

    def parse(self, text: str) -> tuple[str, ...]:
        names = tuple(name for part in text.split(",") if (name := part.strip()))
        return self.read(names) if self.known_outside else names


@dataclass(frozen=True)
class Places:
    """Lines of files."""

    valid: ClassVar[str] = 'a tuple of texts such as "model.py:12"'
    valid_outside: ClassVar[str] = "texts such as model.py:12, separated by commas"

    def read(self, value: Any) -> tuple[str, ...]:
        places = tuple(map(str, _of_type(value, (tuple, list, set, frozenset))))
        for place in places:
            file, _, line = place.rpartition(":")
            if not (file and line.isdecimal()):
                raise ValueError(value)
        return places

    def parse(self, text: str) -> tuple[str, ...]:
        return self.read([place for part in text.split(",") if (place := part.strip())])


class FunctionList(list[Callable[..., Any]]):
    """A list that takes functions only."""

    def __init__(self, functions: Iterable[Any] = ()) -> None:
        super().__init__(map(_function, functions))

    def append(self, function: Any) -> None:
        super().append(_function(function))

    def insert(self, index: SupportsIndex, function: Any) -> None:
        super().insert(index, _function(function))

    def extend(self, functions: Iterable[Any]) -> None:
        super().extend(list(map(_function, functions)))

    def __iadd__(self, functions: Iterable[Any]) -> FunctionList:  # type: ignore[misc,override]
        self.extend(functions)
        return self

    def __setitem__(self, where: Any, given: Any) -> None:
        is_slice = isinstance(where, slice)
        super().__setitem__(where, FunctionList(given) if is_slice else _function(given))


@dataclass(frozen=True)
class Functions:
    """A list of functions; from outside there is no way to name one."""

    valid: ClassVar[str] = "a list of functions, such as [log_metric]"
    valid_outside: ClassVar[str] = "set in code, to a list of functions"

    def read(self, value: Any) -> FunctionList:
        given = _of_type(value, (list, tuple))
        return given if isinstance(given, FunctionList) else FunctionList(given)

    def parse(self, text: str) -> FunctionList:
        raise ValueError(text)


def checked(kind: SettingKind, name: str, value: object) -> Any:
    """The value of a setting as it is kept.

    Args:
        kind: what may stand in the setting.
        name: of the setting, for the error.
        value: what it is set to.

    Raises:
        ValueError: the value is not valid; it says which are.

    Example:
        >>> checked(Count(), "where_op_limit", 16)
        16
        >>> checked(Count(), "where_op_limit", "many")
        Traceback (most recent call last):
        ValueError: where_op_limit is 'many'; it must be a whole number, 0 or more.
    """
    try:
        return kind.read(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}; it must be {kind.valid}.") from None


def parsed(kind: SettingKind, variable: str, default: Any) -> Any:
    """What an environment variable stands for, or a default if it is empty or not there.

    Raises:
        ValueError: as `checked`.
    """
    if not (text := os.environ.get(variable)):
        return default
    try:
        return kind.parse(text)
    except ValueError:
        raise ValueError(f"{variable} is {text!r}; it must be {kind.valid_outside}.") from None


def kinds_of(
    settings: Mapping[str, Any], special: Mapping[str, SettingKind]
) -> dict[str, SettingKind]:
    """What may stand in each setting: by the type of its default, if it is not a special one."""
    by_type: dict[type, SettingKind] = {bool: Switch(), int: Count(), str: Text()}
    names = (name for name in settings if name.islower() and not name.startswith("_"))
    found = {name: special.get(name) or by_type.get(type(settings[name])) for name in names}
    return {name: kind for name, kind in found.items() if kind is not None}


def preset(
    settings: MutableMapping[str, Any],
    kinds: Mapping[str, SettingKind],
    renamed: Mapping[str, str],
) -> None:
    """Give settings the values that the environment has for them.

    Args:
        settings: changed in place.
        kinds: what may stand in each.
        renamed: from names that settings had before to those that they have.

    Raises:
        ValueError: a variable stands for no valid value.
    """
    variables = {name: f"{PREFIX}{name.upper()}" for name in kinds}
    earlier = {name: f"{PREFIX}{name.upper()}" for name in renamed}
    for old, variable in earlier.items():
        new = renamed[old]
        settings[new] = parsed(kinds[new], variable, kinds[new].read(settings[new]))
    for name, variable in variables.items():
        settings[name] = parsed(kinds[name], variable, kinds[name].read(settings[name]))
    known = {*variables.values(), *earlier.values()}
    for given in os.environ:
        if given.startswith(PREFIX) and given not in known:
            for meant in get_close_matches(given, variables.values(), 1, 0.9):
                logging.getLogger("graphmend_bc").warning(
                    "The environment has %s, which presets no setting; %s does.", given, meant
                )


def check_when_set(module: ModuleType, kinds: Mapping[str, SettingKind]) -> None:
    """Let a config module of torch's refuse values that are not valid."""
    base: Any = type(module)

    def check(name: str, value: object) -> Any:
        known = kinds.get(name)
        return checked(known, f"{module.__name__}.{name}", value) if known else value

    class CheckedSettings(base):  # type: ignore[misc]
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, check(name, value))

        def patch(self, first: Any = None, second: Any = None, **settings: Any) -> Any:
            """As torch's; all values are checked before the first is set."""
            given = {first: second} if isinstance(first, str) else first or settings
            for name, value in dict(given).items():
                check(name, value)
            return super().patch(first, second, **settings)

    ModuleType.__setattr__(module, "__class__", CheckedSettings)


def check_environment() -> None:
    """Refuse GRAPHMEND_BC_* variables that stand for no valid value, as reading settings does.

    There are no rules yet when the settings are read, so their names are looked up here.

    Raises:
        ValueError: a variable stands for no valid value; it says which are.
    """
    import_module("graphmend_bc.config")
    parsed(Names(rule_names), f"{PREFIX}RULES_OFF", ())


def rule_names() -> tuple[str, ...]:
    """The names that rules have. Rules stand above settings: they are looked up when asked for."""
    names: tuple[str, ...] = import_module("graphmend_bc.contrib.load").rule_names()
    return names


def _of_type(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(value)
    return value


def _function(value: Any) -> Any:
    if not callable(value):
        raise ValueError(
            f"{value!r} is no function; graphmend_bc.config.effects must be {Functions.valid}."
        )
    return value
