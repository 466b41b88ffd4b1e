"""The deliberate differences from Kafka 4.4: golden case -> reason. docs/differences.md explains them.

`CONTROL`: control records that kafkarec reads and Kafka does not. `KINDS`: both refuse, with a different exception.
`WRITERS`: requests of writer-refusals.json with another outcome. There is no case that only one of the two accepts. A
case listed here that does not differ fails a test.
"""

CONTROL: dict[str, str] = {
    "control-leader-change-v1": (
        "Kafka writes LEADER_CHANGE in version 1 and its ControlRecordUtils reads it as version 0 and fails; "
        "kafkarec reads version 1"
    ),
}

KINDS: dict[str, str] = {
    "v2-snappy-block-length-huge": (
        "the JVM runs out of memory on the claim of 2^31-1 bytes; kafkarec refuses it before it allocates"
    ),
    "v2-snappy-chunk-size-huge": "a SnappyError is a java.lang.Error; ours is of the family",
    "v2-snappy-garbage-behind": "a SnappyError is a java.lang.Error; ours is of the family",
}

WRITERS: dict[str, str] = {
    **{
        f"magic {magic}: cleaner retains an emptied batch": "kafkarec's compaction makes it an empty batch of magic 2"
        for magic in (0, 1)
    },
    "magic 3": "Kafka's builder writes a batch that its own readers refuse; kafkarec writes 0, 1 and 2 only",
}
