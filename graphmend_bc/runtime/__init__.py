"""What rewritten code calls.

Everything here is plain Python with the meaning eager Python has: rewritten code run by CPython
alone does what the original did. `graphmend_bc.dynamo` gives the same objects their meaning inside
a trace.
"""

from graphmend_bc.runtime.code_id import CodeId as CodeId
from graphmend_bc.runtime.code_id import forget_dead_code as forget_dead_code
from graphmend_bc.runtime.code_id import identity_of as identity_of
from graphmend_bc.runtime.primitives import Both as Both
from graphmend_bc.runtime.primitives import Branch as Branch
from graphmend_bc.runtime.primitives import CalledOperation as CalledOperation
from graphmend_bc.runtime.primitives import GetAttribute as GetAttribute
from graphmend_bc.runtime.primitives import Loop as Loop
from graphmend_bc.runtime.primitives import MarkedCallee as MarkedCallee
from graphmend_bc.runtime.primitives import MarkedOperands as MarkedOperands
from graphmend_bc.runtime.primitives import Marker as Marker
from graphmend_bc.runtime.primitives import Outlined as Outlined
from graphmend_bc.runtime.primitives import Primitive as Primitive
from graphmend_bc.runtime.primitives import SetAttribute as SetAttribute
from graphmend_bc.runtime.primitives import Speculate as Speculate
from graphmend_bc.runtime.primitives import Use as Use
from graphmend_bc.runtime.primitives import set_item as set_item
from graphmend_bc.runtime.site import Site as Site
