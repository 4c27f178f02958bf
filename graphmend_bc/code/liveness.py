R={"LOAD_FAST","LOAD_FAST_CHECK","LOAD_FAST_AND_CLEAR"}
def reads(o): return {o.arg} if o.name in R and isinstance(o.arg,str) else set()
def writes(o): return {o.arg} if o.name in("STORE_FAST","DELETE_FAST") else set()
def live_in(g):
    live={b.index:frozenset() for b in g.blocks}; ch=True
    while ch:
        ch=False
        for b in reversed(g.blocks):
            s=set()
            for e in b.successors: s|=live[e.target]
            for o in reversed(g.listing.ops[b.start:b.stop]):
                s-=writes(o); s|=reads(o)
            if b.handler is not None: s|=live[b.handler]
            if s!=live[b.index]: live[b.index]=frozenset(s); ch=True
    return live
