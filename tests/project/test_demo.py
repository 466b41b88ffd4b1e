"""What `make demo` prints besides the application's own output."""

import run_demo

DAEMON = [
    "Traceback (most recent call last):\n",
    '  File "/x/python3.11/runpy.py", line 1, in _run\n',
    "    code\n",
    '  File "/x/site-packages/pyspark/daemon.py", line 233, in manager\n',
    "    write_int(pid, stdout)\n",
    "BrokenPipeError: [Errno 32] Broken pipe\n",
]


def shown(lines):
    return list(run_demo.without_noise(lines))


def test_the_jvms_notes_and_the_daemons_pipe_are_not_shown():
    assert shown(["WARNING: Using incubator modules: jdk\n", "one\n", *DAEMON, "two\n"]) == ["one\n", "two\n"]


def test_every_other_error_is_shown():
    other = [*DAEMON[:-1], "ValueError: a cause\n"]
    not_the_daemon = [DAEMON[0], '  File "x.py", line 1, in f\n', DAEMON[-1]]
    cut = DAEMON[:3]
    for lines in (other, not_the_daemon, cut, ["BrokenPipeError: x\n"]):
        assert shown(["one\n", *lines]) == ["one\n", *lines]


def test_the_end_says_which_interpreters_the_wheel_serves_and_how_to_make_it_for_others(fat):
    text = run_demo.what_to_paste(fat)
    assert f"spark-submit --py-files wheelhouse/{fat.name} your_application.py" in text
    assert "This wheel serves CPython 3.11 to 3.14 on " in text and "\n    make wheelhouse\n" in text
