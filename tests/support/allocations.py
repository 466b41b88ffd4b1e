"""What one extension module asks of the C library: every block of the heap is counted, one of them may be refused, none
overrun; every pread may be cut short, interrupted or failed.

The module's own references to `malloc` and its kin (the relocations of its ELF file) are pointed at functions of a
library that is compiled here, for as long as the context lasts. Python itself and other libraries keep theirs.

    with Allocations(kafkarec._core, refused=3) as heap:     # the third block that the module asks for is refused
        ...
    heap.asked, heap.alive, heap.overrun

    with Preads(kafkarec._core, most=100, bad=range(700, 701)) as preads:     # reads of byte 700 fail with EIO
        ...
    preads.asked
"""

from __future__ import annotations

import ctypes
import functools
import gc
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType, TracebackType

import pytest

import kafkarec

HEAP = ("malloc", "calloc", "realloc", "posix_memalign", "free")
READS = ("pread", "pread64")
RELA, DYNAMIC_SYMBOLS = 4, 11
PAGE, READ_WRITE = 4096, 3
SOURCE = r"""
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Every block has some bytes behind it, which whoever writes over its end changes. Fresh ones are full of 0xAB. */
#define MOST 4096
#define BEHIND 32
static struct { unsigned char *at; size_t size; } blocks[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long heap_asked, heap_refused, heap_alive, heap_overrun;

void heap_begin(long refused) {
    memset(blocks, 0, sizeof blocks);
    heap_asked = heap_alive = heap_overrun = 0;
    heap_refused = refused;
}

static int refuses(void) { return __atomic_add_fetch(&heap_asked, 1, __ATOMIC_SEQ_CST) == heap_refused; }

static void *noted(unsigned char *p, size_t size, int filled) {
    int i;
    if (p == NULL) abort();
    if (filled >= 0) memset(p, filled, size);
    memset(p + size, 0xC5, BEHIND);
    pthread_mutex_lock(&lock);
    for (i = 0; i < MOST && blocks[i].at != NULL; i++);
    if (i == MOST) abort();
    blocks[i].at = p;
    blocks[i].size = size;
    heap_alive++;
    pthread_mutex_unlock(&lock);
    return p;
}

/* One that was there before the context began is none of ours. */
static void forgotten(unsigned char *p) {
    int i, k;
    pthread_mutex_lock(&lock);
    for (i = 0; p != NULL && i < MOST; i++) {
        if (blocks[i].at != p) continue;
        for (k = 0; k < BEHIND && p[blocks[i].size + k] == 0xC5; k++);
        if (k < BEHIND) heap_overrun++;
        blocks[i].at = NULL;
        heap_alive--;
    }
    pthread_mutex_unlock(&lock);
}

void *heap_malloc(size_t n) { return refuses() ? NULL : noted(malloc(n + BEHIND), n, 0xAB); }
void *heap_calloc(size_t count, size_t n) {
    return refuses() ? NULL : noted(malloc(count * n + BEHIND), count * n, 0);
}
void *heap_realloc(void *p, size_t n) {
    if (refuses()) return NULL;
    forgotten(p);
    return noted(realloc(p, n + BEHIND), n, -1);
}
int heap_posix_memalign(void **out, size_t alignment, size_t n) {
    void *p = NULL;
    if (refuses()) return ENOMEM;
    if (posix_memalign(&p, alignment, n + BEHIND) != 0) abort();
    *out = noted(p, n, 0xAB);
    return 0;
}
void heap_free(void *p) { forgotten(p); free(p); }

/* Every other read is interrupted; the rest give `most` bytes at most, and none where a bad one is among them. */
long pread_asked, pread_most, pread_bad, pread_bad_end;
static ssize_t some(int descriptor, void *to, size_t n, off_t at) {
    if (++pread_asked % 2) { errno = EINTR; return -1; }
    if (at < pread_bad_end && pread_bad < (long)(at + n)) { errno = EIO; return -1; }
    return pread(descriptor, to, n < (size_t)pread_most ? n : (size_t)pread_most, at);
}
ssize_t heap_pread(int descriptor, void *to, size_t n, off_t at) { return some(descriptor, to, n, at); }
ssize_t heap_pread64(int descriptor, void *to, size_t n, off_t at) { return some(descriptor, to, n, at); }
"""


@functools.cache
def library() -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux" or sys.maxsize < 2**32:
        pytest.skip("needs a C compiler, and ELF files of 64 bits")
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "heap.c"), Path(folder, "heap.so")
        source.write_text(SOURCE, encoding="utf-8")
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", made, source, "-lpthread"], check=True)
        return ctypes.CDLL(str(made))


def references(path: Path) -> dict[str, int]:
    """How far from its first byte a loaded module keeps the addresses of these functions: ELF64, RELA."""
    data = path.read_bytes()
    assert data[:5] == b"\x7fELF\x02"
    (at,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + n * size) for n in range(count)]
    found = {}
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind != RELA or sections[link][1] != DYNAMIC_SYMBOLS:
            continue
        symbols, strings = sections[link][4], sections[sections[link][6]][4]
        for entry in range(start, start + length, 24):
            place, info = struct.unpack_from("<QQ", data, entry)
            begin = strings + struct.unpack_from("<I", data, symbols + (info >> 32) * 24)[0]
            name = data[begin : data.index(0, begin)].decode()
            found[name] = place
    return found


def loaded_at(path: Path) -> int:
    """The address of a loaded file's first byte."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        words = line.split(maxsplit=5)
        if words[-1] == str(path) and int(words[2], 16) == 0:
            return int(words[0].partition("-")[0], 16)
    raise AssertionError(f"{path} is not loaded")


class _Pointed:
    """A module's references to some functions, pointed at ours."""

    names: tuple[str, ...] = ()

    def __init__(self, module: ModuleType) -> None:
        self.ours = library()
        assert module.__file__ is not None
        path = Path(module.__file__).resolve()
        first, places = loaded_at(path), references(path)
        named = [name for name in self.names if name in places]
        self.places = {name: ctypes.c_void_p.from_address(first + places[name]) for name in named}
        assert self.places
        self.before = {name: place.value for name, place in self.places.items()}

    def point(self) -> None:
        for name, place in self.places.items():
            page = ctypes.addressof(place) // PAGE * PAGE
            ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), READ_WRITE)
            place.value = ctypes.cast(self.ours[f"heap_{name}"], ctypes.c_void_p).value

    def point_back(self) -> None:
        for name, place in self.places.items():
            place.value = self.before[name]

    def number(self, name: str) -> ctypes.c_long:
        return ctypes.c_long.in_dll(self.ours, name)


class Allocations(_Pointed):
    """See above. `refused` counts from 1; 0: none is."""

    names = HEAP
    asked = alive = overrun = 0

    def __init__(self, module: ModuleType, refused: int = 0) -> None:
        super().__init__(module)
        self.refused = refused

    def __enter__(self) -> Allocations:
        gc.disable()  # no buffer of somebody else is given back meanwhile, and then recycled
        kafkarec.release_memory()
        self.ours.heap_begin(ctypes.c_long(self.refused))
        self.point()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        kafkarec.release_memory()
        if self.number("heap_alive").value:
            gc.collect()
            kafkarec.release_memory()
        gc.enable()
        self.point_back()
        self.asked, self.alive, self.overrun = (self.number(f"heap_{n}").value for n in ("asked", "alive", "overrun"))


class Preads(_Pointed):
    """See above. Every other one is interrupted by a signal."""

    names = READS
    asked = 0

    def __init__(self, module: ModuleType, most: int = 1 << 30, bad: range = range(0)) -> None:
        super().__init__(module)
        self.most, self.bad = most, bad

    def __enter__(self) -> Preads:
        values = {"asked": 0, "most": self.most, "bad": self.bad.start, "bad_end": self.bad.stop}
        for name, value in values.items():
            self.number(f"pread_{name}").value = value
        self.point()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.point_back()
        self.asked = self.number("pread_asked").value
