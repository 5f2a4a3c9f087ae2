"""A name becomes verified files on this disk."""
