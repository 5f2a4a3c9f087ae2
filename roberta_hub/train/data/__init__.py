"""Reads texts and labels, makes examples of them, and deals the examples out in batches."""
