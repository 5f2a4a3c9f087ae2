"""The command roberta-hub."""
