from dataclasses import dataclass
EXIT=-1
@dataclass(frozen=True)
class Edge:
    target:int; jump:bool
@dataclass(frozen=True)
class Block:
    index:int; start:int; stop:int; successors:tuple; handler:int|None
class Graph:
    def __init__(s,listing,blocks,owner): s.listing=listing; s.blocks=blocks; s._o=owner
    def block_of(s,i): return s.blocks[s._o[i]]
    def last(s,b): return s.listing.ops[b.stop-1]
FINAL={"RETURN_VALUE","RETURN_CONST","RAISE_VARARGS","RERAISE"}
UNC={"JUMP_FORWARD","JUMP_BACKWARD","JUMP_BACKWARD_NO_INTERRUPT"}
def build(l):
    ops=l.ops; lead={0}
    for o in ops:
        if o.target is not None: lead.add(o.target)
        if o.handler: lead.add(o.handler.target)
        if (o.target is not None or o.name in FINAL) and o.index+1<len(ops): lead.add(o.index+1)
        if o.index and ops[o.index-1].handler!=o.handler: lead.add(o.index)
    st=sorted(lead); idx={s:i for i,s in enumerate(st)}; owner={}
    bl=[]
    for i,s in enumerate(st):
        e=st[i+1] if i+1<len(st) else len(ops)
        for k in range(s,e): owner[k]=i
        last=ops[e-1]; suc=[]
        if last.name not in FINAL:
            if last.name not in UNC: suc.append(Edge(i+1,False))
            if last.target is not None: suc.append(Edge(idx[last.target],True))
        h=ops[s].handler
        bl.append(Block(i,s,e,tuple(suc), idx[h.target] if h else None))
    return Graph(l,tuple(bl),owner)
