"""Verbs as records: their inputs, how they run, and the format of their answers."""
