from bytecode import Instr, Label
def eff(o,jump): return Instr(o.name,Label() if o.target is not None else o.arg).stack_effect(jump=jump)
def depth_at(g):
    d={0:0}; w=[0]
    while w:
        b=g.blocks[w.pop()]; n=d[b.index]; ops=g.listing.ops[b.start:b.stop]
        for o in ops[:-1]: n+=eff(o,False)
        for e in b.successors:
            if e.target not in d: d[e.target]=n+eff(ops[-1],e.jump); w.append(e.target)
    return d
def depth_before(g,i):
    b=g.block_of(i); n=depth_at(g)[b.index]
    for o in g.listing.ops[b.start:i]: n+=eff(o,False)
    return n
def lowest_depth(g,blocks):
    low=10**9; d=depth_at(g)
    for b in blocks:
        b=g.blocks[b]; n=d[b.index]; low=min(low,n); ops=g.listing.ops[b.start:b.stop]
        for o in ops:
            pre,post=Instr(o.name,Label() if o.target is not None else o.arg).pre_and_post_stack_effect(jump=False)
            if pre<0: low=min(low,n+pre)
            n+=pre+post
    return low
