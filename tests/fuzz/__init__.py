"""Feeds readers bytes that nobody wrote, and folders that the peers wrote at random.

Run it as `python -m tests.fuzz.fuzz_readers dictionary --seconds 600` and as
`python -m tests.fuzz.folders --minutes 60`.
"""
