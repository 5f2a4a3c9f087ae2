"""Trains a task: updates, evaluations, and states from which a killed run resumes."""
