"""Holds the command roberta-hub: each verb is a file, and `main.py` collects them."""
