"""Turns ids into numbers; this room knows no text and no files."""
