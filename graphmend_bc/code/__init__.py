"""Reading, analysing and assembling CPython bytecode. Imports no torch.

`decode` turns a code object into a `Listing` of ops, `build` parts that into blocks, the analyses
tell facts about those, and `assemble` makes a code object again. Versions of CPython differ in
`facts` only.
"""

from graphmend_bc.code import facts as facts
from graphmend_bc.code.analysis.assignment import definitely_assigned as definitely_assigned
from graphmend_bc.code.analysis.assignment import (
    definitely_assigned_before as definitely_assigned_before,
)
from graphmend_bc.code.analysis.assignment import possibly_assigned as possibly_assigned
from graphmend_bc.code.analysis.assignment import (
    possibly_assigned_before as possibly_assigned_before,
)
from graphmend_bc.code.analysis.blocks import EXIT as EXIT
from graphmend_bc.code.analysis.blocks import Block as Block
from graphmend_bc.code.analysis.blocks import Edge as Edge
from graphmend_bc.code.analysis.blocks import Graph as Graph
from graphmend_bc.code.analysis.blocks import build as build
from graphmend_bc.code.analysis.dominators import immediate_dominators as immediate_dominators
from graphmend_bc.code.analysis.dominators import (
    immediate_postdominators as immediate_postdominators,
)
from graphmend_bc.code.analysis.liveness import live_before as live_before
from graphmend_bc.code.analysis.liveness import live_in as live_in
from graphmend_bc.code.analysis.liveness import reads as reads
from graphmend_bc.code.analysis.liveness import writes as writes
from graphmend_bc.code.analysis.loops import NaturalLoop as NaturalLoop
from graphmend_bc.code.analysis.loops import is_reducible as is_reducible
from graphmend_bc.code.analysis.loops import loops as loops
from graphmend_bc.code.analysis.regions import Region as Region
from graphmend_bc.code.analysis.regions import RegionArm as RegionArm
from graphmend_bc.code.analysis.regions import region_of as region_of
from graphmend_bc.code.analysis.regions import single_entry as single_entry
from graphmend_bc.code.analysis.stack import depth_at as depth_at
from graphmend_bc.code.analysis.stack import depth_before as depth_before
from graphmend_bc.code.analysis.stack import lowest_depth as lowest_depth
from graphmend_bc.code.assemble import Assembled as Assembled
from graphmend_bc.code.assemble import Emit as Emit
from graphmend_bc.code.assemble import Label as Label
from graphmend_bc.code.assemble import assemble as assemble
from graphmend_bc.code.assemble import relist as relist
from graphmend_bc.code.header import Header as Header
from graphmend_bc.code.listing import Handler as Handler
from graphmend_bc.code.listing import Listing as Listing
from graphmend_bc.code.listing import Op as Op
from graphmend_bc.code.listing import decode as decode
