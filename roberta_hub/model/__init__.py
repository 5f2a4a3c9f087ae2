"""IDS -> NUMBERS. Knows no text and no files."""
