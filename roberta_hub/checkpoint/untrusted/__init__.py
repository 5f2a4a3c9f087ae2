"""Reads pickles from outside without running them."""
