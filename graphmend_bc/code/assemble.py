from dataclasses import dataclass, field
import dis
from bytecode import Bytecode, Instr, Label as L, TryBegin, TryEnd, UNSET, CellVar, FreeVar
class Label:
    def __init__(self,name=""): self.name=name
@dataclass(frozen=True)
class Emit:
    name:str; arg:object=UNSET; label:object=None; handler:object=None; location:object=None; origin:int|None=None
@dataclass(frozen=True)
class Header:
    name:str; qualname:str; filename:str; first_line:int; flags:int; argnames:tuple; argcount:int; posonlyargcount:int; kwonlyargcount:int; freevars:tuple; cellvars:tuple; docstring:object=UNSET
    @classmethod
    def of(cls,c):
        n=c.co_argcount+c.co_kwonlyargcount+bool(c.co_flags&4)+bool(c.co_flags&8)
        return cls(c.co_name,c.co_qualname,c.co_filename,c.co_firstlineno,c.co_flags,c.co_varnames[:n],c.co_argcount,c.co_posonlyargcount,c.co_kwonlyargcount,c.co_freevars,c.co_cellvars, c.co_consts[0] if c.co_consts else UNSET)
@dataclass(frozen=True)
class Assembled:
    code:object; origins:dict
def assemble(h, items):
    bc=Bytecode(); bc.name=h.name; bc.qualname=h.qualname; bc.filename=h.filename; bc.first_lineno=h.first_line
    bc.flags=h.flags; bc.argnames=list(h.argnames); bc.argcount=h.argcount; bc.posonlyargcount=h.posonlyargcount; bc.kwonlyargcount=h.kwonlyargcount
    bc.freevars=list(h.freevars); bc.cellvars=list(h.cellvars); bc.docstring=h.docstring
    labels={}
    def lab(x): return labels.setdefault(id(x),L())
    cur=None; tb=None; origins=[]
    for it in items:
        if isinstance(it,Label):
            bc.append(lab(it)); continue
        if it.handler!=cur:
            if tb is not None: bc.append(TryEnd(tb)); tb=None
            if it.handler is not None: tb=TryBegin(lab(it.handler[0]),it.handler[1]); bc.append(tb)
            cur=it.handler
        bc.append(Instr(it.name, lab(it.label) if it.label is not None else it.arg, location=it.location)); origins.append(it.origin)
    if tb is not None: bc.append(TryEnd(tb))
    code=bc.to_code()
    offs=[i.offset for i in dis.get_instructions(code) if i.opname not in("CACHE","EXTENDED_ARG")]
    assert len(offs)==len(origins),(len(offs),len(origins))
    return Assembled(code,{o:g for o,g in zip(offs,origins) if g is not None})
