"""Turns plain words and numbers into HTML, text and PNG. Knows no answers and no models."""
