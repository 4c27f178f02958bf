import networkx as nx
from .blocks import EXIT
def immediate_postdominators(g):
    d=nx.DiGraph(); d.add_node(EXIT)
    for b in g.blocks:
        if not b.successors: d.add_edge(EXIT,b.index)
        for e in b.successors: d.add_edge(e.target,b.index)
    r=nx.immediate_dominators(d,EXIT); r.pop(EXIT,None)
    return {b.index:r.get(b.index,EXIT) for b in g.blocks}
