"""The rows of `benchmarks/safety.py`: each case once, alike on fairseq, Hugging Face and ours."""
