"""Bytecode in, bytecode out: structured branches and marked effects.

Torch-free. A rewrite never changes what the code does when CPython runs it.
"""

from graphmend_bc.rewriting.plan import Plan as Plan
from graphmend_bc.rewriting.rewriter import Rewritten as Rewritten
from graphmend_bc.rewriting.rewriter import rewrite as rewrite
from graphmend_bc.rewriting.widest import widest_plan as widest_plan
