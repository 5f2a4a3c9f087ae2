"""Feeds readers bytes that nobody wrote.

Run it as `python -m tests.fuzz.fuzz_readers dictionary --seconds 600`.
"""
