"""BYTES <-> WEIGHTS.

Never builds a model and never interprets text: a vocabulary is bytes to it.
"""
