"""What applications tell, as JSON can hold it."""

import base64


def plain(value):
    """Bytes as base64, tuples and Spark's rows as lists."""
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value
