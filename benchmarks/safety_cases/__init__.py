"""The rows of `benchmarks/safety.py`: each case once, run alike on fairseq, Hugging Face and ours."""
