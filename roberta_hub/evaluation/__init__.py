"""WHAT A MODEL IS WORTH: its answers against the right ones, by the measures of each task."""
