"""Measures answers: classes, numbers, spans, probabilities; and how far a number can be trusted."""
