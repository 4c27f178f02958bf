"""Programs whose progress bars are left to stock Dynamo: bodies of `f(x)`, and why."""

from __future__ import annotations

from tests.releases import since

DECLINED = {
    "read": (
        """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x * i + bar.n
        return x""",
        "bar-escapes",
    ),
    "length": (
        """
        bar = tqdm(items, **Show.how)
        x = x + len(bar)
        for i in bar:
            x = x * i
        return x""",
        "bar-escapes",
    ),
    "text": (
        """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x * i
        return x + len(str(bar))""",
        "bar-escapes",
    ),
    "printed": (
        """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x * i
        print(bar, file=out)
        return x""",
        "bar-escapes",
    ),
    "formatted": (
        """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x * i
        print(f"{bar}", file=out)
        return x""",
        "bar-escapes",
    ),
    "truth": (
        """
        bar = tqdm(items, **Show.how)
        if bar:
            x = x + 1
        for i in bar:
            x = x * i
        return x""",
        "bar-escapes",
    ),
    "compared": (
        """
        bar = tqdm(items, **Show.how)
        x = x + int(bar == 3)
        for i in bar:
            x = x * i
        return x""",
        "bar-escapes",
    ),
    "contains": (
        """
        if 2 in tqdm(items, **Show.how):
            x = x + 1
        return x""",
        "bar-escapes",
    ),
    "attribute set": (
        """
        bar = tqdm(total=3, **Show.how)
        x = x + 1
        bar.n = 2
        bar.refresh()
        bar.close()
        return x""",
        "bar-escapes",
    ),
    "result of update": (
        """
        with tqdm(items, **Show.how) as bar:
            shown = bar.update()
        return x + 1 if shown else x""",
        "effect-result-used",
    ),
    "another method": (
        """
        with tqdm(items, **Show.how) as bar:
            bar.reset(5)
        return x + 1""",
        "bar-escapes",
    ),
    "kept in a global list": (
        """
        bar = tqdm(items, **Show.how)
        Show.bar = bar
        for i in bar:
            x = x * i
        return x""",
        "bar-escapes",
    ),
    "returned": (
        """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x * i
        return x, bar""",
        "bar-escapes",
    ),
    "iterator returned": (
        """
        steps = iter(tqdm(items, **Show.how))
        x = x + next(steps)
        return x, steps""",
        "bar-escapes",
    ),
    "iterator left in a variable": (
        """
        steps = iter(tqdm(items, **Show.how))
        for i in steps:
            x = x + i
            break
        print("after", file=out)
        return x""",
        "bar-escapes",
    ),
    "enumerate left in a variable": (
        """
        steps = enumerate(tqdm(items, **Show.how))
        for i, j in steps:
            x = x + i
            break
        print("after", file=out)
        return x""",
        "bar-escapes",
    ),
    "zip left in a variable": (
        """
        steps = zip(tqdm(items, **Show.how), items)
        for i, j in enumerate(steps):
            break
        print("after", file=out)
        return x + i""",
        "bar-escapes",
    ),
    "two left together": (
        """
        for i, j in zip(tqdm(items, **Show.how), tqdm(items, desc="b", **Show.how)):
            break
        print("after", file=out)
        return x + i""",
        "bar-escapes",
    ),
    "left by the callee": (
        """
        def work(x):
            bar = tqdm(total=3, **Show.how)
            bar.update()
            return x + 1
        x = work(x)
        print("after", file=out)
        return x""",
        "bar-escapes",
    ),
    "overwritten": (
        """
        bar = tqdm(total=3, **Show.how)
        bar.update()
        bar = None
        print("after", file=out)
        return x + 1""",
        "bar-escapes",
    ),
    "two left open": (
        """
        b = tqdm(total=3, desc="b", **Show.how)
        a = tqdm(total=3, desc="a", **Show.how)
        a.update()
        return x + 1""",
        "bar-escapes",
    ),
    "comprehension that raises": (
        """
        def work(i):
            if i == 2:
                raise ValueError(i)
            return i
        try:
            y = [work(i) for i in tqdm(items, **Show.how)]
        except ValueError as error:
            print("caught", file=out)
        print("after", file=out)
        return x + 1""",
        "bar-escapes",
    ),
    "items that raise": (
        """
        class Items:
            def __iter__(self):
                return self
            def __next__(self):
                raise KeyError(3)
        try:
            for i in tqdm(Items(), **Show.how):
                x = x + i
        except KeyError:
            print("caught", file=out)
        return x + 1""",
        "bar-escapes",
    ),
    "in a generator": (
        """
        def work():
            for i in tqdm(items, **Show.how):
                yield i
        for i in work():
            x = x * i
            print(i, file=out)
        return x""",
        "effect-in-generator",
    ),
    "gone over by a generator": (
        """
        for i in (i + 1 for i in tqdm(items, **Show.how)):
            x = x * i
            break
        print("after", file=out)
        return x""",
        "effect-in-generator",
    ),
    "over a bar": (
        """
        for i in tqdm(tqdm(items, **Show.how), **Show.how):
            x = x * i
        return x""",
        "effect-argument",
    ),
    "unknown argument": (
        """
        try:
            for i in tqdm(items, nested=True, **Show.how):
                x = x * i
        except Exception as error:
            print(type(error), file=out)
        return x + 1""",
        "effect-argument",
    ),
    "bad argument": (
        """
        try:
            for i in tqdm(items, file=out, bar_format="{nothing}"):
                x = x * i
        except KeyError as error:
            print(error, file=out)
        return x + 1""",
        "effect-argument",
    ),
    "shown later": (
        """
        for i in tqdm(items, delay=1000, **Show.how):
            x = x * i
        return x""",
        "effect-argument",
    ),
    "an object of the user's": (
        """
        for i in tqdm(items, desc=Show(), file=out):
            x = x * i
        return x""",
        "effect-argument",
    ),
    "a method's argument": (
        """
        for i in (bar := tqdm(items, **Show.how)):
            x = x * i
            bar.set_postfix(o={i})
        return x""",
        "effect-argument",
    ),
    "items that print when they end": (
        """
        class Items:
            def __iter__(self):
                return self
            def __next__(self):
                print("end", file=out)
                raise StopIteration
        for i in tqdm(Items(), **Show.how):
            x = x * i
        return x + 1""",
        "bar-escapes",
    ),
    "rows that a bar would keep": (
        """
        rows = ["a"]
        bar = tqdm(items, desc=rows, **Show.how)
        rows.append("b")
        for i in bar:
            x = x * i
        return x""",
        "effect-argument",
    ),
    "inside a transform": (
        """
        def work(v):
            for i in tqdm(items, **Show.how):
                v = v * i
            return v
        return torch.func.vmap(work)(x)""",
        "inside-transform",
    ),
    "given to a function that is not compiled": (
        """
        bar = tqdm(items, **Show.how)
        x = x + 1
        disabled(bar)
        bar.close()
        return x""",
        "bar-escapes",
    ),
    "a graph break in a with block": (
        """
        with tqdm(items, **Show.how) as bar:
            x = x + 1
            torch._dynamo.graph_break()
            print("in", file=out)
        return x""",
        "bar-escapes",
    ),
    "a graph break in the loop": (
        """
        for i in tqdm(items, **Show.how):
            x = x * i
            torch._dynamo.graph_break()
        return x""",
        None,
    ),
    "a graph break before the end": (
        """
        bar = tqdm(total=3, **Show.how)
        bar.update()
        x = x * 2
        torch._dynamo.graph_break()
        print("after", file=out)
        return x""",
        "bar-escapes",
    ),
}


STOCK_DIFFERS = {
    *(["iterator returned"] if since(2, 14) else []),
    "contains",
    "iterator left in a variable",
    "zip left in a variable",
    "two left together",
    "overwritten",
    "two left open",
}
"""Programs in which stock Dynamo may close a bar later than eager Python."""
