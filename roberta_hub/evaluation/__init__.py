"""WHAT A MODEL IS WORTH: its answers beside the right ones, by the measures of each task."""
