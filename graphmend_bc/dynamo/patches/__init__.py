"""The attributes of torch that are replaced while mending is on, and what replaces them.

The only package that installs anything in torch. May import every package of `dynamo`.
"""
