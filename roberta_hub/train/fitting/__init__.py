"""Makes a classifier of a table: reads it, trains on it, measures the result, writes it."""
