"""From a graph break to a mend: the attempts at one frame, and what is known across frames.

`frame_compiler` runs the attempts, each of which is in `attempts`; `frame_planner` answers what
their traces ask, from the plans in `plans`; `retry_policy` changes these after a failed attempt.
`outcomes` reports what came of it and decides from counts whether a mend pays; `decisions` keeps
what was learnt for other processes; `state` is what frames share. May import: rules, dynamo,
rewriting, reporting.
"""
