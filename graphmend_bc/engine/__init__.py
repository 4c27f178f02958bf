"""From a graph break to a mend: the attempts at one frame, and what is known across frames.

`frame_compiler` runs the attempts, each of which is in `attempts`; `failures` tells of those that
failed; `site_plans` says what is rewritten; `retry_policy` changes that
after a failed attempt; `governor` decides from counts whether a mend pays, and `failed_checks`
carries that out for speculations; `commit` reports what came of it; `state` is what frames share.
May import: rules, dynamo, rewriting, reporting.
"""
