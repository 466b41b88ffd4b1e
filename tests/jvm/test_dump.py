"""`dump` compared with Kafka's DumpLogSegments on random files: both outputs line by line, and the exit status."""

import golden
import jvm_oracle
import pytest
from dump_comparison import DumpResult, agree, ours, random_words, sidecars, theirs
from java_text import java_utf8
from random_folders import fill
from random_logs import Maker

from kafkarec.format.messages import java_text
from kafkarec.internal_topics.dump_text import DECODERS

STEMS = ("00000000000000000000", "00000000000000000100", "5")


def test_good_unusual_and_damaged_logs(kafka, tmp_path):
    for seed in range(jvm_oracle.count(600)):
        maker = Maker(seed)
        data = maker.log()
        log = tmp_path / f"{maker.random.choice(STEMS)}.log"
        log.write_bytes(data)
        arguments, options = random_words(maker, len(data))
        kafkas = theirs(kafka, [log], arguments)
        assert agree(ours([log], **options), kafkas), f"seed {seed}, {arguments}"


def test_indexes_and_snapshots(kafka, tmp_path):
    for seed in range(jvm_oracle.count(20)):
        maker = Maker(seed)
        files = sidecars(tmp_path, fill(maker, kafka, tmp_path))
        arguments, options = random_words(maker, 200, index=True)
        for group in [files] if not maker.random.randrange(4) else [[file] for file in files]:
            our_output = ours(group, **options)  # before Kafka's tool truncates an .index that ends within an entry
            assert agree(our_output, theirs(kafka, group, arguments), index=True), f"seed {seed}, {arguments}"


@pytest.mark.parametrize("case", golden.vectors() + golden.invalid(), ids=str)
def test_every_golden_buffer_is_dumped_as_a_log(case, kafka, tmp_path):
    log = tmp_path / f"{STEMS[0]}.log"
    log.write_bytes(case.bytes)
    kafkas = theirs(kafka, [log], ["--print-data-log"])
    assert agree(ours([log], print_data=True), kafkas)


@pytest.mark.parametrize("flag", DECODERS)
@pytest.mark.parametrize("case", golden.segment_files(), ids=str)
def test_real_segments_are_dumped_with_every_decoder(flag, case, kafka):
    assert agree(ours([case.bin_path], decode=DECODERS[flag]), theirs(kafka, [case.bin_path], [flag]))


def test_paths_are_shown_as_java_shows_them(kafka, tmp_path):
    log = tmp_path / f"{STEMS[0]}.log"
    log.write_bytes(golden.vector("v2-snappy-create").bytes)
    odd = [f"{tmp_path}//./{log.name}", f"{tmp_path}/../{tmp_path.name}/{log.name}", tmp_path / "plain", "a.b"]
    assert agree(ours(odd, deep=True), theirs(kafka, odd, ["--deep-iteration"]))
    missing = [tmp_path / "00000000000000000007.log"]
    assert ours(missing) == theirs(kafka, missing, []) == DumpResult(1, ours(missing).out, ())


def test_java_text_equals_that_of_the_jvm(kafka):
    """The JVM agrees with tests/support/java_text.py, and kafkarec.format.messages.java_text agrees with both."""
    random = Maker(1).random
    pool = bytes.fromhex("41c3a9eda080bfe09ff090f48ff5ffe282acc0f1")
    texts = [bytes(random.choice(pool) for _ in range(random.randrange(1, 8))) for _ in range(2000)]
    answer = kafka.ask("text", *(text.hex() for text in texts)).out.split("\n")[:-1]
    assert answer == [java_utf8(text) for text in texts] == [java_text(text) for text in texts]
