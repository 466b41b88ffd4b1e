"""Values of Spark's rows as JSON can hold them."""

import base64


def plain(value):
    """Return bytes as base64, tuples and Spark's rows as lists."""
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value
