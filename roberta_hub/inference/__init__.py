"""Answers questions about texts: one file a question, functions of (model, tokenizer, texts)."""
