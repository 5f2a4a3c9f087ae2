"""Hostile files, made by code, against naive readers and against ours.

See `bench.py` for what is measured.
"""
