"""Settings take what is valid, from wherever it comes, and refuse the rest in one sentence."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphmend_bc as gm
from graphmend_bc.setting_checks import FunctionList
from tests.processes import python
from tests.releases import since


def set_directly(**settings: Any) -> None:
    for name, value in settings.items():
        setattr(gm.config, name, value)


def patch_by_dict(**settings: Any) -> None:
    with gm.config.patch(settings):
        pass


def patch_by_keyword(**settings: Any) -> None:
    with gm.config.patch(**settings):
        pass


def patch_by_pair(**settings: Any) -> None:
    ((name, value),) = settings.items()
    with gm.config.patch(name, value):
        pass


def load(**settings: Any) -> None:
    gm.config.load_config(settings)


WAYS = (set_directly, patch_by_dict, patch_by_keyword, patch_by_pair, load)

WRONG = {
    "contrib": ("false", "it must be True or False."),
    "enabled": (1, "it must be True or False."),
    "hoist_limit": (2.5, "it must be a whole number, 0 or more."),
    "arm_limit": (-3, "it must be a whole number, 0 or more."),
    "snapshot_limit": (True, "it must be a whole number, 0 or more."),
    "failed_check_limit": (0, "it must be a whole number, 1 or more."),
    "attach": (["lib:f"], "it must be a str or a path."),
    "cache_dir": (b"/tmp/x", "it must be a str or a path."),
    "strategies": (("fold", "hoists"), "it must be a tuple of any of 'fold', 'where', 'cond', "),
    "rules_off": (
        "where",
        "it must be a tuple of any of 'accumulate', 'ask', 'backward', 'bounds', ",
    ),
    "sites_off": (("model.py",), 'it must be a tuple of texts such as "model.py:12".'),
    "verify_action": ("stop", "it must be 'warn' or 'raise'."),
    "effects": (len, "it must be a list of functions, such as [log_metric]."),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_and_changes_nothing(way: Callable[..., None], name: str) -> None:
    value, valid = WRONG[name]
    before = gm.config.get_config_copy()
    with pytest.raises(ValueError, match=name) as caught:
        way(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"graphmend_bc.config.{name} is {value!r}; {valid}")
    assert message.endswith(".")
    assert gm.config.get_config_copy() == before


def test_patch_sets_nothing_if_one_of_its_values_is_wrong() -> None:
    before = gm.config.flip_limit
    with pytest.raises(ValueError, match="attempt_limit"):
        gm.config.patch(flip_limit=1, attempt_limit=None)
    assert gm.config.flip_limit == before


def test_every_setting_is_checked() -> None:
    assert {name for name in gm.config.get_config_copy() if name.islower()} >= {*WRONG}
    for name in gm.config.get_config_copy():
        if name.islower():
            with pytest.raises(ValueError, match=f"config.{name} is <object"):
                gm.config.patch({name: object()})


def test_what_is_valid_is_taken() -> None:
    for settings, kept in (
        ({"rules_off": ["flags", "hits"]}, ("flags", "hits")),  # of contrib/
        ({"strategies": {"where"}}, ("where",)),
        ({"cache_dir": Path("/tmp/mends")}, "/tmp/mends"),
        ({"concrete_eval_limit": 0}, 0),
        ({"sites_only": ["a.py:3", "/b/c.py:4"]}, ("a.py:3", "/b/c.py:4")),
        ({"verify_action": "raise"}, "raise"),
        ({"effects": (print, gm.Rule)}, [print, gm.Rule]),
    ):
        with gm.config.patch(settings):
            assert getattr(gm.config, *settings) == kept


def test_a_rule_of_the_users_can_be_switched_off_once_it_is_there() -> None:
    with pytest.raises(ValueError, match="'unrolled', 'where'"):
        gm.config.patch(rules_off=("tell-home",))
    registered = gm.register_rule(gm.Rule("tell-home", "defer", 4, lambda break_site: None))
    with gm.config.patch(rules_off=("tell-home",)):
        registered.remove()


def test_a_list_of_functions_takes_no_names() -> None:
    functions = FunctionList([len])
    names: list[Any] = ["print"]
    changes: list[Callable[[], object]] = [
        lambda: functions.append(names[0]),
        lambda: functions.insert(0, names[0]),
        lambda: functions.extend([max, *names]),
        lambda: functions.__iadd__(names),
        lambda: functions.__setitem__(0, names[0]),
        lambda: functions.__setitem__(slice(0, 1), names),
    ]
    for change in changes:
        with pytest.raises(ValueError, match=r"^'print' is no function; graphmend_bc\.config\."):
            change()
        assert functions == [len]
    functions += [max]
    functions[:1] = [min]
    functions.insert(0, abs)
    assert functions == [abs, min, max]


def test_effects_are_such_a_list_from_the_beginning() -> None:
    with gm.config.patch(effects=[]):
        kept = gm.config.effects
        kept.append(len)
        with gm.config.patch(effects=[max]), pytest.raises(ValueError, match="no function"):
            gm.config.effects.append("print")
        assert gm.config.effects is kept
        assert kept == [len]
    said = with_environment("gm.config.effects.append('print')")
    assert "ValueError: 'print' is no function;" in said.stderr


def test_enable_checks_its_argument() -> None:
    with pytest.raises(ValueError, match=r"^The argument cache of enable\(\) is 'no'; it must be"):
        gm.enable(cache="no")  # type: ignore[arg-type]
    assert not gm.is_enabled()


def with_environment(program: str, **given: str) -> subprocess.CompletedProcess[str]:
    return python("-c", f"import graphmend_bc as gm\n{program}", env=given)


@pytest.mark.slow
def test_the_environment_presets_settings_of_every_kind() -> None:
    names = ("where_op_limit", "rules_off", "strategies", "contrib", "cache_dir", "flip_limit")
    ran = with_environment(
        "import threading\n"
        f"tell = lambda: print(*(repr(getattr(gm.config, name)) for name in {names}))\n"
        "tell()\n"
        "gm.config.where_op_limit = 8\n"
        "tell()\n"
        "gm.enable()\n"
        "other = threading.Thread(target=tell); other.start(); other.join()\n",
        GRAPHMEND_BC_WHERE_OP_LIMIT="16",
        GRAPHMEND_BC_RULES_OFF="cond, each,",
        GRAPHMEND_BC_STRATEGIES="where,cond",
        GRAPHMEND_BC_CONTRIB="0",
        GRAPHMEND_BC_CACHE_DIR="some where",
        GRAPHMEND_BC_FLIP_LIMIT="",
    )
    rest = "('cond', 'each') ('where', 'cond') False 'some where' 4"
    other = 16 if since(2, 13) else 8  # torch 2.11 keeps settings for all threads
    assert ran.stdout.splitlines() == [f"16 {rest}", f"8 {rest}", f"{other} {rest}"], ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("HOIST_SIZE_LIMIT", "2**20", "a whole number, 0 or more."),
        ("DISK_CACHE", "false", "0 or 1."),
        ("STRATEGIES", "where;cond", "any of fold, where, cond, while_loop, "),
        ("RULES_OFF", "where,wher", "any of accumulate, ask, backward, bounds, "),
        ("EFFECTS", "lib:log", "set in code, to a list of functions."),
    ],
)
def test_a_wrong_variable_is_refused(name: str, value: str, valid: str) -> None:
    ran = with_environment("gm.enable()", **{f"GRAPHMEND_BC_{name}": value})
    *_, last = ran.stderr.splitlines()
    assert last.startswith(f"ValueError: GRAPHMEND_BC_{name} is {value!r}; it must be {valid}")
    assert ran.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "explain", "doctor"])
@pytest.mark.parametrize("wrong", [("ARM_LIMIT", "1e3"), ("RULES_OFF", "conds")])
def test_the_command_line_is_refused_with_it(
    command: str, wrong: tuple[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('it ran')")
    arguments = [] if command == "doctor" else [str(program)]
    name, value = wrong
    given = {f"GRAPHMEND_BC_{name}": value}
    ran = python("-m", "graphmend_bc", command, *arguments, env=given)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"error: GRAPHMEND_BC_{name} is {value!r}; it must be " in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.slow
def test_a_variable_that_is_nearly_one_is_named() -> None:
    ran = with_environment("gm.enable()", GRAPHMEND_BC_WHERE_OPLIMIT="3", GRAPHMEND_BC_MINE="1")
    assert ran.stderr.splitlines() == [
        "The environment has GRAPHMEND_BC_WHERE_OPLIMIT, which presets no setting; "
        "GRAPHMEND_BC_WHERE_OP_LIMIT does."
    ]


OFF = """
import logging
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
logging.getLogger("graphmend_bc").setLevel(logging.INFO)
import torch
from torch._dynamo.convert_frame import compile_frame
def f(x):
    return x * 2 if x.sum() > 0 else x - 1
gm.config.enabled = True
handle = gm.enable()
with gm.enabled(), gm.attach("no_such_module:f"), gm.attach(f):
    found = gm.explain(f)(torch.ones(2))
    torch.compile(f, backend="eager")(torch.ones(2))
    import torch._dynamo.convert_frame as convert_frame
    assert convert_frame.compile_frame is compile_frame
print(gm.is_enabled(), len(gm.report().mends), found.after == found.before, len(found.mends))
handle.remove()
"""


@pytest.mark.slow
def test_all_is_switched_off_from_outside() -> None:
    ran = with_environment(OFF, GRAPHMEND_BC="0", GRAPHMEND_BC_ATTACH="no_such_module:f")
    assert ran.stdout == "False 0 True 0\n", ran.stderr
    told = [line for line in ran.stderr.splitlines() if "graphmend_bc" in line]
    assert told == ["INFO graphmend_bc GRAPHMEND_BC=0: graphmend_bc.enable() does nothing."] * 2


@pytest.mark.slow
@pytest.mark.parametrize("value", ["1", ""])
def test_another_value_leaves_it_on(value: str) -> None:
    program = "gm.enable(); print(gm.is_enabled()); gm.config.enabled = False; gm.disable()\n"
    ran = with_environment(f"{program}gm.enable(); print(gm.is_enabled())", GRAPHMEND_BC=value)
    assert ran.stdout == "True\nFalse\n", ran.stderr
    assert ran.stderr == ""


def test_a_wrong_switch_is_refused() -> None:
    ran = with_environment("gm.enable()", GRAPHMEND_BC="off")
    assert ran.stderr.endswith("ValueError: GRAPHMEND_BC is 'off'; it must be 0 or 1.\n")


def test_a_setting_is_still_known_by_its_earlier_name() -> None:
    with gm.config.patch(retrace_limit=3):
        assert (gm.config.attempt_limit, gm.config.retrace_limit) == (3, 3)
    with gm.config.patch(attempt_limit=5):
        assert gm.config.retrace_limit == 5
    with pytest.raises(ValueError, match=r"config\.retrace_limit is 'many'"):
        gm.config.retrace_limit = "many"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "limit"),
    [
        ({"GRAPHMEND_BC_RETRACE_LIMIT": "7"}, 7),
        ({"GRAPHMEND_BC_ATTEMPT_LIMIT": "8"}, 8),
        ({"GRAPHMEND_BC_RETRACE_LIMIT": "7", "GRAPHMEND_BC_ATTEMPT_LIMIT": "8"}, 8),
    ],
)
def test_so_are_variables(variables: dict[str, str], limit: int) -> None:
    source = "import graphmend_bc as gm; print(gm.config.attempt_limit, gm.config.retrace_limit)"
    done = python("-c", source, env=variables)
    assert done.stdout.split() == [str(limit)] * 2, done.stderr
