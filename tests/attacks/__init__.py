"""Tries hostile files, made by code, on naive readers and on ours.

See `bench.py` for what is measured.
"""
