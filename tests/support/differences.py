"""Where kafkarec differs from Kafka 4.3 on purpose: golden case -> reason. docs/differences.md is for people.

`VERDICT`: the verdict rule would judge the other way. `CONTROL`: control records that we read and Kafka does
not. `KINDS`: both refuse, ours in a better way. `WRITERS`: requests of writer-refusals.json that end otherwise. A case
listed here that does not differ fails the suite.
"""

VERDICT: dict[str, str] = {}

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
    "magic 3": "Kafka's builder writes a batch that its own readers refuse; kafkarec writes 0, 1 and 2 only",
}
