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
from graphmend_bc.runtime.primitives import Loop as Loop
from graphmend_bc.runtime.primitives import Mark as Mark
from graphmend_bc.runtime.primitives import Marker as Marker
from graphmend_bc.runtime.primitives import Operands as Operands
from graphmend_bc.runtime.primitives import Operation as Operation
from graphmend_bc.runtime.primitives import Primitive as Primitive
from graphmend_bc.runtime.primitives import SetAttribute as SetAttribute
from graphmend_bc.runtime.primitives import Speculate as Speculate
from graphmend_bc.runtime.primitives import Use as Use
from graphmend_bc.runtime.primitives import Whole as Whole
from graphmend_bc.runtime.site import Site as Site
