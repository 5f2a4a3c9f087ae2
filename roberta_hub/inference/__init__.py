"""A QUESTION -> ITS ANSWER. One file a question; functions of (model, tokenizer, texts)."""
