"""Holds the command roberta-hub: families of verbs, and `main.py`, which finds them."""
