"""Tables and frames → rows: CSV, TSV, JSONL, Parquet, pandas, polars, Arrow, lists and dicts.

The ground for all that reads a table: verbs, lakes, `fit`, training and the shell ask here what a
line says, what a cell holds and whether it is missing. A row that cannot be read is a `Fault`; who
reads decides whether it is an error.
"""
