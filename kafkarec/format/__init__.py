"""What the format says, for Python: columns and their types, enums, control records, plain tuples of side files."""
