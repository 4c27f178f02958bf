"""Tiny programs, one for each seam: whether this torch still comes by, and to what effect.

A seam that is there by its name may be gone around: torch moves its work elsewhere and keeps the
name. Only a program that must reach it tells.
"""
