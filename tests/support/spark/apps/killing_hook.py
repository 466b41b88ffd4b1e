"""Kills a driver where one of its processes touches a chosen file: a copy of this module named sitecustomize is on the
path of all of them.

KILLING names a folder with `rule.json` (what test_stream_kills.py has chosen) and `driver`, the process id of the
driver's JVM. The rule holds while its micro-batch is in the checkpoint's offsets and not in its commits. The file that
it names is made once, with the batches in the checkpoint at that time; each rule has one of its own, since tasks of a
dead driver go on for a while.
"""

import json
import os
import re
import signal
import sys
import threading

FOLDER = os.environ["KILLING"]
CHECKPOINT = f"{FOLDER}/checkpoint"


def numbers(name):
    """The micro-batches with an entry in offsets, or in commits."""
    return sorted(int(each) for each in os.listdir(f"{CHECKPOINT}/{name}") if each.isdigit())


def read_rule():
    try:
        with open(f"{FOLDER}/rule.json") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


RULE = read_rule()
_hits = 0
_busy = threading.local()


def watch(event, words):
    """Kill the driver before the call for which the rule has counted enough calls."""
    global _hits
    if event != RULE["event"] or getattr(_busy, "now", False):
        return
    _busy.now = True
    try:
        if not (re.search(RULE["path"], " ".join(map(str, words))) and running()):
            return
        _hits += 1
        if _hits == RULE["count"]:
            kill()
    finally:
        _busy.now = False


def running():
    batch = RULE["batch"]
    if not os.path.exists(f"{CHECKPOINT}/offsets/{batch}") or os.path.exists(f"{CHECKPOINT}/commits/{batch}"):
        return False
    return not os.path.exists(f"{FOLDER}/{RULE['mark']}")


def kill():
    try:
        mark = os.open(f"{FOLDER}/{RULE['mark']}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return
    with open(f"{FOLDER}/driver") as file:
        driver = int(file.read())
    os.kill(driver, signal.SIGSTOP)  # what is written here is what the driver has left
    os.write(mark, json.dumps({"offsets": numbers("offsets"), "commits": numbers("commits")}).encode())
    os.close(mark)
    os.kill(driver, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if RULE is not None:
    sys.addaudithook(watch)
