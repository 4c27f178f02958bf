"""Compare calls of mended frames with eager Python, on copies of all that the frame changes.

`isolation` says of a compiled frame whether it can be repeated, `copies` makes the copies,
`effects` keeps what the repetition shows from the program, `comparison` compares.
"""
