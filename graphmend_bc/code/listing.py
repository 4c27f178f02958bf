from dataclasses import dataclass
from types import CodeType
from typing import Any
import dis
from bytecode import Bytecode, Instr, Label, TryBegin, TryEnd, UNSET
@dataclass(frozen=True, slots=True)
class Handler:
    target:int; push_lasti:bool
@dataclass(frozen=True, slots=True)
class Op:
    index:int; name:str; arg:Any; target:int|None; handler:Handler|None; offset:int; location:Any
@dataclass(frozen=True)
class Listing:
    code:CodeType; ops:tuple
    def at_offset(self, offset):
        for o in self.ops:
            if o.offset==offset: return o
        raise ValueError(offset)
def decode(code):
    bc=Bytecode.from_code(code)
    offs=[i.offset for i in dis.get_instructions(code) if i.opname not in("CACHE","EXTENDED_ARG")]
    labels={}; n=0
    for i in bc:
        if isinstance(i,Label): labels[i]=n
        elif isinstance(i,Instr): n+=1
    ops=[]; cur=None; k=0
    for i in bc:
        if isinstance(i,TryBegin): cur=i
        elif isinstance(i,TryEnd): cur=None
        elif isinstance(i,Instr):
            j=i.has_jump()
            ops.append(Op(k,i.name,UNSET if j else i.arg, labels[i.arg] if j else None, Handler(labels[cur.target],cur.push_lasti) if cur else None, offs[k], i.location)); k+=1
    assert k==len(offs)
    return Listing(code,tuple(ops))
