"""Turns the name of a model into verified files on this disk."""
