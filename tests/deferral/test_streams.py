"""Streams, pprint, and observers of other libraries: tqdm, tensorboard, loguru, absl."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]


@pytest.mark.parametrize(
    "call",
    [
        'sys.stdout.write("plain\\n")',
        'sys.stdout.write(f"{x.sum():.3f}\\n")',
        'sys.stdout.writelines(["a", "b", f"{x.sum()}"])',
        "sys.stdout.flush()",
        'pprint.pprint({"x": [1, 2, 3], "sum": x.sum()})',
        'pprint.pp({"b": 1, "a": (x.shape, x.dtype)}, width=20)',
        "pprint.pprint([1, 2], stream=sys.stdout)",
        'print({"x": x.sum(), "n": [1, (2, x)]})',
        "print(torch.nn.Linear, int, torch.Tensor, torch.float32)",
    ],
)
def test_streams(call: str) -> None:
    check(
        f"""
        import pprint, sys

        def f(x):
            y = x + 1
            {call}
            return y * 2
        """,
        BOTH,
        mends="defer@5",
    )


def test_written_count_that_is_used() -> None:
    check(
        """
        import sys

        def f(x):
            count = sys.stdout.write("text")
            return x + count
        """,
        BOTH,
        declines="effect-result-used@4",
        breaks=1,
    )


def test_open_file(tmp_path: object) -> None:
    check(
        f"""
        path = {str(tmp_path)!r} + "/log.txt"
        log = open(path, "w", buffering=1)
        texts = []

        def f(x, read):
            if read:
                texts[:] = [open(path).read()]
                return None
            return step(x)

        def step(x):
            log.write("step\\n")
            print("norm", x.sum(), file=log)
            return x + 1
        """,
        [(UP, False), (DOWN, False), (UP, True)],
        mends="defer@12 defer@13",
        declines=None,
        breaks=1,
        orders=1,
    )


def test_absl() -> None:
    pytest.importorskip("absl")
    check(
        """
        from absl import logging as absl_logging

        absl_logging.get_absl_logger().propagate = False
        absl_logging.get_absl_logger().parent = logging.getLogger("program")
        absl_logging.get_absl_logger().propagate = True

        def f(x):
            absl_logging.warning("norm %s", x.sum())
            absl_logging.error("plain")
            absl_logging.debug("off")
            return x + 1
        """,
        BOTH,
        mends="defer@8 defer@9 defer@10",
    )


def test_loguru() -> None:
    pytest.importorskip("loguru")
    check(
        """
        from loguru import logger

        seen = []

        def sink(message):
            record = message.record
            place = (record["file"].path, record["line"], record["function"], record["name"].split("_")[0])
            seen.append([str(record["level"]), record["message"], *place, record["thread"].id])

        logger.remove()
        logger.add(sink, level="INFO", format="{message}")

        def f(x):
            logger.info("norm {}", x.sum())
            logger.debug("off")
            logger.warning("x is {x}", x=x)
            return x + 1
        """,
        BOTH,
        mends="defer@14 defer@15 defer@16",
    )


def test_tensorboard(tmp_path: object) -> None:
    pytest.importorskip("tensorboard")
    check(
        f"""
        import tempfile
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(tempfile.mkdtemp(dir={str(tmp_path)!r}))
        events = []

        def f(x, read):
            return step(x) if not read else read_back()

        def step(x):
            writer.add_scalar("norm", x.sum(), 3)
            writer.add_scalars("both", {{"max": x.max(), "min": x.min()}}, 4)
            writer.add_histogram("x", x)
            return x + 1

        def read_back():
            writer.flush()
            events[:] = []
            for event in EventFileLoader(writer.file_writer.event_writer._file_name).Load():
                for value in event.summary.value:
                    events.append([event.step, value.tag, str(value.tensor), str(value.metadata)])
        """,
        [(UP, False), (DOWN, False), (UP, True)],
        mends="defer@12 defer@13 defer@14 capture@tensor_util.py",
        declines=None,  # and as many breaks as the library's reader has
        breaks=None,
        orders=1,
    )


def test_tqdm_bar() -> None:
    check(
        """
        import io
        from tqdm import tqdm

        out = io.StringIO()
        bar = tqdm(total=6, file=out, mininterval=0, position=0, bar_format="{desc}{n}/{total}{postfix}")
        texts = []

        def f(x, read):
            if read:
                texts[:] = [out.getvalue()]
                return None
            return step(x)

        def step(x):
            bar.set_description("training")
            bar.set_postfix(norm=f"{x.sum():.2f}", step=3)
            bar.update(1)
            return x + 1
        """,
        [(UP, False), (DOWN, False), (UP, True)],
        mends="defer@15 defer@16 defer@17",
        declines=None,
        breaks=1,
        orders=1,
    )


def test_bar_that_is_closed() -> None:
    check(
        """
        import io
        from tqdm import tqdm

        out = io.StringIO()
        bar = tqdm(total=6, file=out, mininterval=0, position=0, bar_format="{n}/{total}{postfix}")
        texts = []

        def f(x, read):
            if read:
                texts[:] = [out.getvalue(), bar.n, bar.disable]
                return None
            return step(x)

        def step(x):
            for i in range(3):
                x = x * 2
                bar.set_postfix(loss=x.sum().item())
                bar.update()
            if x.sum() > 100:
                bar.close()
            return x + 1
        """,
        [(UP, False), (None, True), (UP * 9, False), (None, True)],
        mends="defer@17 defer@18 where@19 defer@20",
        declines=None,
        breaks=1,
        orders=1,
    )


@pytest.mark.parametrize("read", ["bar.n", "bar.format_dict['n']", "bar.postfix == ''"])
def test_what_a_bar_counts_is_read(read: str) -> None:
    outcome = check(
        f"""
        import io
        from tqdm import tqdm

        bar = tqdm([1, 2], total=6, file=io.StringIO())

        def f(x):
            x = x + bar.total
            bar.update()
            bar.set_postfix_str("text")
            return x + ({read})
        """,
        BOTH,
        mends="",
        declines=None,
        breaks=None,
    )
    assert "effect-result-used@8" in outcome.declines


def test_write_above_a_bar() -> None:
    check(
        """
        import sys
        from tqdm import tqdm

        def f(x):
            tqdm.write(f"norm {x.sum():.2f}")
            tqdm.write("to stdout", file=sys.stdout)
            return x + 1
        """,
        BOTH,
        mends="defer@5 defer@6",
    )
