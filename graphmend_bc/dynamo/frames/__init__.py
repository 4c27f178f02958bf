"""The frames that Dynamo compiles: their code objects and forms, their breaks and errors.

May import: graph, runtime, reporting, code, rewriting.
"""
