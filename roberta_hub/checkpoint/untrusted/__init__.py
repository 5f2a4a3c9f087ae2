"""Pickles from outside are read and never run."""
