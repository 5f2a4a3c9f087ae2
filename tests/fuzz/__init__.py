"""Readers against bytes nobody wrote: `python -m tests.fuzz.fuzz_readers dictionary --seconds 600`."""
