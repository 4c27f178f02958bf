"""Programs whose progress bars are made and driven after the graph: bodies of `f(x)`."""

from __future__ import annotations

MENDED = {
    "for": """
        for i in tqdm(items, **Show.how):
            x = x * i
        return x""",
    "keywords": """
        for i in tqdm(items, file=out, mininterval=0, bar_format="{n}/{total}|", desc="work"):
            x = x * i
        return x""",
    "trange": """
        for i in trange(4, file=out, mininterval=0, bar_format="{desc}{n}/{total}|", desc="a"):
            x = x * i
        return x""",
    "messages between the steps": """
        for i in tqdm(items, **Show.how):
            x = x * i
            print("step", i, x.sum(), file=out)
        print("done", file=out)
        return x""",
    "tqdm.write": """
        for i in tqdm(items, **Show.how):
            x = x * i
            tqdm.write(f"norm {x.sum():.2f}", file=out)
        return x""",
    "postfix": """
        bar = tqdm(items, desc="loss", **Show.how)
        for i in bar:
            x = x * i
            bar.set_postfix(loss=x.sum().item(), i=i)
        bar.set_description("late")
        return x""",
    "with": """
        with tqdm(total=len(items), **Show.how) as bar:
            for i in items:
                x = x * i
                bar.set_postfix(loss=x.sum())
                bar.update(1)
        print("closed", file=out)
        return x""",
    "with and without a name": """
        with tqdm(items, **Show.how):
            x = x + 1
        return x""",
    "close": """
        bar = tqdm(total=6, initial=2, unit="B", **Show.how)
        for i in items:
            x = x + i
            bar.update(i)
        bar.close()
        bar.update()
        bar.set_postfix_str("after")
        return x""",
    "left open": """
        bar = tqdm(total=6, **Show.how)
        for i in items:
            bar.update(i)
            x = x + i
        print("last", file=out)
        return x""",
    "enumerate": """
        for i, y in enumerate(tqdm([x, x + 1], **Show.how), 3):
            x = x + y * i
            print(i, file=out)
        return x""",
    "zip": """
        for i, y in zip(tqdm(items, **Show.how), items):
            x = x + y * i
        for i, y in zip(items, tqdm(items, **Show.how)):
            x = x + y * i
            print(i, file=out)
        print("end", file=out)
        return x""",
    "no length": """
        for i, j in tqdm(zip(items, items), **Show.how):
            x = x * i + j
        for i, j in tqdm(enumerate(items), **Show.how):
            x = x * i + j
        for i in tqdm(map(lambda i: i * 2, items), total=3, **Show.how):
            x = x * i
        for i in tqdm(iter(items), **Show.how):
            x = x * i
        for i in tqdm((i for i in items), **Show.how):
            x = x * i
        return x""",
    "lengths": """
        for y in tqdm(x, **Show.how):
            x = x * y
        for i in tqdm({1: 2, 3: 4}, **Show.how):
            x = x * i
        for i in tqdm({1: 2, 3: 4}.items(), **Show.how):
            x = x * i[1]
        for i in tqdm((1, 2), total=None, **Show.how):
            x = x * i
        for i in tqdm("ab", **Show.how):
            x = x + len(i)
        for i in tqdm([], **Show.how):
            x = x + 7
        for i in tqdm(items, total=7, **Show.how):
            x = x + i
        for i in tqdm(range(2, 5), total=float("inf"), **Show.how):
            x = x + i
        return x""",
    "break": """
        for i in tqdm(items, **Show.how):
            if i == 2:
                break
            x = x + i
        print("left", file=out)
        return x""",
    "break from enumerate and zip": """
        for i, y in enumerate(tqdm(items, **Show.how)):
            print(i, file=out)
            if i == 1:
                break
        print("left", file=out)
        for i, y in zip(tqdm(items, **Show.how), items):
            if i == 2:
                break
        print("left", file=out)
        for i in iter(tqdm(items, **Show.how)):
            if i == 2:
                break
        print("left", file=out)
        return x + i""",
    "continue and else": """
        for i in tqdm(items, **Show.how):
            if i == 2:
                continue
            x = x + i
        else:
            print("else", file=out)
        for i in tqdm(items, **Show.how):
            break
        else:
            print("never", file=out)
        return x + i""",
    "return in a loop": """
        for i in tqdm(items, **Show.how):
            for j in tqdm(items, leave=False, **Show.how):
                x = x + j
                print(i, j, file=out)
                if i + j == 4:
                    return x
        return x""",
    "nested": """
        for i in trange(2, desc="outer", **Show.how):
            for j in trange(3, desc="inner", leave=False, **Show.how):
                x = x * (i + j)
            for j in trange(3, desc="other", leave=None, position=2, **Show.how):
                if j == 1:
                    break
        return x""",
    "nested, inner left without a word": """
        for i in tqdm(items, **Show.how):
            for j in tqdm(items, **Show.how):
                break
        return x + i + j""",
    "disabled": """
        bar = tqdm(items, disable=True, **Show.how)
        for i in bar:
            x = x * i
            bar.set_postfix(a=i)
            bar.update()
        for i in tqdm(items, disable=None, **Show.how):
            x = x * i
        return x""",
    "default format": """
        for i in tqdm(items, file=out, mininterval=0, ascii=True, desc="work", unit="B"):
            x = x * i
        for i in tqdm(iter(items), file=out, mininterval=0):
            x = x * i
        return x""",
    "twice over a bar": """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x * i
        for i in bar:
            x = x * i
        return x""",
    "classes": """
        for i in auto.tqdm(items, **Show.how):
            x = x * i
        for i in auto.trange(3, **Show.how):
            x = x + i
        for i in aio.tqdm(items, **Show.how):
            x = x * i
        for i in module.tqdm(iterable=items, **Show.how):
            x = x + i
        for i in aio.trange(1, 7, 2, **Show.how):
            x = x + i
        return x""",
    "arguments of all kinds": """
        for i in tqdm(items, f"norm {x.sum():.1f}", 5, postfix={"max": x.max()}, colour="green", **Show.how):
            x = x + i
        return x""",
    "comprehension": """
        ys = [x * i for i in tqdm(items, **Show.how)]
        print("made", file=out)
        return sum(ys)""",
    "exception": """
        try:
            for i in tqdm(items, **Show.how):
                print(i)
                if i == 2:
                    raise ValueError("two")
        except ValueError:
            print("caught")
        try:
            with tqdm(items, **Show.how) as bar:
                for i in bar:
                    if i == 2:
                        raise KeyError(i)
        except KeyError:
            print("caught")
        finally:
            print("finally")
        return x + i""",
    "None test": """
        bar = tqdm(total=3, **Show.how) if x.dim() else None
        for i in items:
            x = x * i
            if bar is not None:
                bar.update()
        if bar is not None:
            bar.close()
        return x""",
    "given to a function": """
        def work(x, bar, again=None):
            for i in bar:
                x = x * i
                bar.set_postfix(i=i)
            return x
        x = work(x, tqdm(items, **Show.how))
        bars = [tqdm(items, **Show.how)]
        bars.append(tqdm(items, desc="b", **Show.how))
        for bar in bars:
            x = work(x, bar)
        return x""",
    "a branch on a tensor in the loop": """
        for i in tqdm(items, **Show.how):
            if x.sum() > 0:
                x = x * i
            else:
                x = x - i
                print("negative", file=out)
        return x""",
    "left where a tensor says so": """
        for i in tqdm(items, **Show.how):
            x = x * i
            if x.sum() > 8:
                break
        print("left", file=out)
        return x""",
    "a loop in an arm": """
        if x.sum() > 0:
            for i in tqdm(items, **Show.how):
                x = x * i
        return x""",
    "calls in an arm": """
        bar = tqdm(total=3, **Show.how)
        for i in items:
            x = x + i
            if x.sum() > 3:
                bar.set_postfix(big=x.sum())
                bar.update()
        if x.sum() > 10:
            bar.close()
        print("end", file=out)
        return x""",
    "raises where a tensor says so": """
        for i in tqdm(items, **Show.how):
            x = x * i
            print(i, file=out)
            if x.sum() < -10:
                raise ValueError(f"too small in step {i}")
        return x""",
    "exception in a callee": """
        def work(x):
            with tqdm(total=2, **Show.how) as bar:
                for i in tqdm(items, desc="in", **Show.how):
                    bar.update()
                    if i == 2:
                        raise ValueError(i)
            return x
        for k in trange(2, desc="out", **Show.how):
            try:
                work(x)
            except ValueError:
                print("caught")
                continue
            finally:
                print("finally")
        return x + k""",
    "the value that is returned": """
        def say(x):
            print("said")
            return x
        for k in tqdm(items, **Show.how):
            try:
                if k == 2:
                    return say(x + k)
            finally:
                print("finally", k)
        return x""",
    "next": """
        steps = iter(tqdm(items, **Show.how))
        a = next(steps) + next(steps) + next(steps)
        print(a, file=out)
        b = next(steps, 7)
        print("end", file=out)
        return x + a + b""",
    "a list that grows": """
        rows = [1, 2, 3]
        for i in tqdm(rows, **Show.how):
            if i == 2:
                rows.append(9)
            x = x * i
        return x""",
    "items of the user's class": """
        for i in tqdm(Items(3), **Show.how):
            x = x * i
        return x""",
    "modules": """
        for layer in auto.tqdm(nn.ModuleList([nn.Identity(), nn.Tanh()]), **Show.how):
            x = layer(x) + 1
        return x""",
    "a bar of an object's": """
        meter = Meter(3)
        for i in items:
            meter(i)
            x = x * i
        meter.bar.close()
        print("end", file=out)
        return x""",
    "positions": """
        a = tqdm(total=1, desc="a", **Show.how)
        b = tqdm(total=1, desc="b", **Show.how)
        a.update()
        a.close()
        c = tqdm(total=1, desc="c", **Show.how)
        b.update()
        c.update()
        c.close()
        b.close()
        return x + 1""",
    "inputs changed in place": """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x.add_(i)
            bar.set_postfix(x=x)
            print(x, file=out)
        return x""",
    "random": """
        for i in tqdm(items, **Show.how):
            x = x + torch.rand(3)
            if x.sum() > 5:
                print("big", file=out)
                break
        return x""",
    "arms with bars of their own": """
        if x.sum() > 0:
            with tqdm(total=2, **Show.how) as bar:
                bar.update(2)
                x = x * 2
        else:
            with tqdm(total=3, desc="b", **Show.how) as bar:
                bar.update(1)
        return x""",
    "next in an arm": """
        steps = iter(tqdm(items, **Show.how))
        y = next(steps)
        if x.sum() > 0:
            y = next(steps)
        for i in steps:
            x = x + i
        print("end", file=out)
        return x + y""",
    "two loops over one bar": """
        bar = tqdm(items, **Show.how)
        for i in bar:
            for j in bar:
                x = x + i * j
        steps = iter(tqdm([1, 2, 3, 4], **Show.how))
        for i, j in zip(steps, steps):
            x = x + i * j
        print("end", file=out)
        return x""",
    "used after a loop was left": """
        bar = tqdm(items, **Show.how)
        for i in bar:
            if i == 2:
                break
        bar.update(5)
        bar.set_postfix(a=1)
        for i in bar:
            x = x + i
            if i == 2:
                bar.close()
            print(i, file=out)
        return x""",
    "below a bar from outside": """
        for i in tqdm(items, leave=False, **Show.how):
            outer.set_description("outer")
            outer.update(1)
            x = x + i
        return x""",
    "fewer texts": """
        for i in trange(10, miniters=4, **Show.how):
            x = x + i
        with tqdm(total=10, miniters=3, maxinterval=100, **Show.how) as bar:
            for i in range(10):
                bar.set_description(f"d{i}", refresh=False)
                bar.update()
        return x""",
    "deleted when closed": """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x + i
        del bar
        print("deleted", file=out)
        return x""",
}
