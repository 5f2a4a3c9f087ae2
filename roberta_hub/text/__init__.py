"""TEXT <-> IDS. Knows no weights, and no files but its vocabulary."""
