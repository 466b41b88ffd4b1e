"""The fence: what users see of the product, on fixed inputs, as one snapshot that is compared row by row.

| module | what |
|---|---|
| `rows` | a row of the snapshot; the file, its digests, the difference of two rows |
| `calls` | runs one command line or one Python call and makes rows of what came |
| `folders` | the inputs: healthy folders, damaged copies, folders that are built, and harvested ones |
| `scenarios` | every scenario: a folder and the calls that are made on it |
| `names` | public names and signatures, options, columns, Spark's functions and options |

It uses public names of the product only, except `names`, which reads the tables of options. `make fence` writes the
snapshot again.
"""
