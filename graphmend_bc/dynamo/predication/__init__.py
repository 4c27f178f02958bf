"""If-conversion: both arms traced and one result selected, `torch.cond`, `torch.while_loop`.

May import: speculation, symbols, trace, graph.
"""
