def definitely_assigned(g):
    c=g.listing.code
    n=c.co_argcount+c.co_kwonlyargcount+bool(c.co_flags&4)+bool(c.co_flags&8)
    allv=frozenset(c.co_varnames)
    d={0:frozenset(c.co_varnames[:n])}; work=[0]
    def flow(t,s):
        old=d.get(t); new=s if old is None else old&s
        if new!=old: d[t]=new; work.append(t)
    while work:
        b=g.blocks[work.pop()]; s=set(d[b.index])
        if b.handler is not None: flow(b.handler,frozenset(s))
        for o in g.listing.ops[b.start:b.stop]: step(s,o)
        for e in b.successors: flow(e.target,frozenset(s))
    return d
def step(s,o):
    if o.name=="STORE_FAST": s.add(o.arg)
    if o.name in("DELETE_FAST","LOAD_FAST_AND_CLEAR"): s.discard(o.arg)
def definitely_assigned_before(g,i):
    b=g.block_of(i); s=set(definitely_assigned(g)[b.index])
    for o in g.listing.ops[b.start:i]: step(s,o)
    return s
