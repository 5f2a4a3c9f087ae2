"""Turns plain words and numbers into HTML, text and PNG; it knows no answers and no models."""
