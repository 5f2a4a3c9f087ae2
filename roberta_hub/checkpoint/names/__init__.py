"""Translates each family's names at Hugging Face into ours, by one table a family."""
