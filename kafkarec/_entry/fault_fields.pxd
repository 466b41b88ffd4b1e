"""Converts a refusal from C to Python."""
from kafkarec._c cimport status as st
from kafkarec._c.status cimport Fault


cdef inline dict reasons_by_status():
    """{a status that refuses: its word in kafkarec.errors.REASONS}."""
    return {
        st.SIZE_TOO_SMALL: "size_too_small", st.SIZE_OVERFLOW: "size_overflow",
        st.UNSUPPORTED_MAGIC: "unsupported_magic", st.BATCH_TOO_SMALL: "batch_too_small",
        st.LENGTH_BEYOND_END: "length_beyond_end", st.CRC_MISMATCH: "crc_mismatch",
        st.UNSUPPORTED_CODEC: "unsupported_codec", st.MISSING_CODEC: "missing_codec",
        st.PAYLOAD_CORRUPT: "payload_corrupt", st.LIMIT_EXCEEDED: "limit_exceeded",
        st.RECORD_COUNT_NEGATIVE: "record_count_negative", st.RECORDS_MISSING: "records_missing",
        st.RECORDS_LEFT_OVER: "records_left_over", st.RECORD_LENGTH_INVALID: "record_length_invalid",
        st.RECORD_STRUCTURE_INVALID: "record_structure_invalid", st.VARINT_TOO_LONG: "varint_too_long",
        st.KEY_LENGTH_INVALID: "key_length_invalid", st.VALUE_LENGTH_INVALID: "value_length_invalid",
        st.HEADER_COUNT_INVALID: "header_count_invalid", st.HEADER_KEY_INVALID: "header_key_invalid",
        st.HEADER_VALUE_INVALID: "header_value_invalid", st.WRAPPER_VALUE_NULL: "wrapper_value_null",
        st.WRAPPER_EMPTY: "wrapper_empty", st.WRAPPER_OFFSET_TOO_SMALL: "wrapper_offset_too_small",
        st.INNER_COMPRESSED: "inner_compressed", st.INNER_SIZE_TOO_SMALL: "inner_size_too_small",
        st.INNER_CRC_MISMATCH: "inner_crc_mismatch", st.MESSAGE_TRUNCATED: "message_truncated",
        st.OUT_OF_MEMORY: "out_of_memory", st.UNREADABLE: "unreadable",
        st.LEADER_EPOCH_DIFFERS: "leader_epoch_differs", st.BASE_OFFSET_NOT_ZERO: "base_offset_not_zero",
        st.BATCH_TOO_LARGE: "batch_too_large", st.OFFSETS_OUT_OF_ORDER: "offsets_out_of_order",
    }


cdef inline dict fault_fields(const Fault* f, object file, object detail):
    """The fault as arguments of damage.sentence and damage.error. file: None if there is none; detail: "" likewise."""
    return {
        "position": f.position, "base_offset": f.base_offset, "expected": f.expected, "found": f.found,
        "record": f.record, "detail": detail, "file": file,
        "next_position": None if f.next_position < 0 else f.next_position,
    }
