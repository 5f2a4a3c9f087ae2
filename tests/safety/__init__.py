"""Runs each fault and attack once on fairseq, Hugging Face and ours: `audit.py`."""
