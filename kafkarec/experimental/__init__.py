"""Formats that were proposed for Kafka and never adopted. No broker reads them, and no other function of kafkarec does:
each module has its own encode and decode, and converts from and to magic 2. They may change in any release.

* `v3`: magic 3 of the discarded proposal: no attributes byte in a record, shorter batch headers
* `header_first`: its additional proposal: the fields of all records before their keys and values
"""
