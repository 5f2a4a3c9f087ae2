"""Turns bytes into weights, and weights into bytes.

This room never builds a model and never interprets text: to it, a vocabulary is bytes.
"""
