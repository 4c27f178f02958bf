"""What serves a single library or a single kind of model: one module or package each.

Each has an `EXTENSION`, which is registered as one of a user's would be; `config.contrib` switches
all of them off. Nothing below imports them. May import: everything but `session` and what is above.
"""
