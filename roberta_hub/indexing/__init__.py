"""An index of vectors on disk, which knows the model they are of; near-duplicates."""

ENDING = ".lance"
"""Ending of an index's folder."""


def is_index(path: object) -> bool:
    """Whether a path or an address names an index.

    Example:
        >>> is_index("texts.lance"), is_index("s3://bucket/texts.lance/"), is_index("texts.parquet")
        (True, True, False)
    """
    return str(path).rstrip("/").endswith(ENDING)
