"""What rewritten code calls.

Everything here is plain Python with the meaning eager Python has: rewritten code run by CPython
alone does what the original did. `graphmend_bc.dynamo` gives the same objects their meaning inside
a trace.
"""

from graphmend_bc.runtime.code_id import CodeId as CodeId
from graphmend_bc.runtime.code_id import forget_dead_code as forget_dead_code
from graphmend_bc.runtime.code_id import identity_of as identity_of
from graphmend_bc.runtime.primitives import Ask as Ask
from graphmend_bc.runtime.primitives import Both as Both
from graphmend_bc.runtime.primitives import Bounds as Bounds
from graphmend_bc.runtime.primitives import Branch as Branch
from graphmend_bc.runtime.primitives import Defer as Defer
from graphmend_bc.runtime.primitives import Draw as Draw
from graphmend_bc.runtime.primitives import Guess as Guess
from graphmend_bc.runtime.primitives import Hoist as Hoist
from graphmend_bc.runtime.primitives import HoistItem as HoistItem
from graphmend_bc.runtime.primitives import Known as Known
from graphmend_bc.runtime.primitives import Listed as Listed
from graphmend_bc.runtime.primitives import Loop as Loop
from graphmend_bc.runtime.primitives import Mark as Mark
from graphmend_bc.runtime.primitives import Once as Once
from graphmend_bc.runtime.primitives import Primitive as Primitive
from graphmend_bc.runtime.primitives import Require as Require
from graphmend_bc.runtime.primitives import Rows as Rows
from graphmend_bc.runtime.primitives import Whole as Whole
from graphmend_bc.runtime.site import Site as Site
