"""Verbs as records: what each takes of a row, how it is asked, and how its answers are written."""
