"""Reads checkpoints that fairseq and Hugging Face write, and writes what they read."""
