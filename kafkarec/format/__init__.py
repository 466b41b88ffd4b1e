"""Columns and their types, enums, control records, and tuples for entries of side files."""
