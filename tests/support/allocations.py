"""Intercepts the C library calls of one extension module, and of the core, which has the recycled pages: counts heap
blocks, can refuse one allocation, detects writes beyond the end of a block; can shorten, interrupt or fail every pread.

The module's own references to `malloc`, `free` and so on (the relocations of its ELF file) are redirected to functions
of a library that is compiled here, for as long as the context lasts. Python itself and other libraries are unaffected.

    with Allocations(kafkarec._core, refused=3) as heap:     # the third allocation of the module fails
        ...
    heap.calls, heap.alive, heap.overrun

    with Preads(kafkarec._core, max_bytes=100, bad=range(700, 701)) as preads:     # reads of byte 700 fail with EIO
        ...
    preads.calls
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
from kafkarec import _core

HEAP = ("malloc", "calloc", "realloc", "posix_memalign", "free")
READS = ("pread", "pread64", "syscall")
RELA, DYNAMIC_SYMBOLS = 4, 11
PAGE, READ_WRITE = 4096, 3
SOURCE = r"""
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* GUARD bytes follow every block: a write beyond its end changes them. Fresh blocks are filled with 0xAB. */
#define MAX_BLOCKS 4096
#define GUARD 32
static struct { unsigned char *at; size_t size; } blocks[MAX_BLOCKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long heap_calls, heap_refused, heap_alive, heap_overrun;

void heap_begin(long refused) {
    memset(blocks, 0, sizeof blocks);
    heap_calls = heap_alive = heap_overrun = 0;
    heap_refused = refused;
}

static int is_refused(void) { return __atomic_add_fetch(&heap_calls, 1, __ATOMIC_SEQ_CST) == heap_refused; }

static void *registered(unsigned char *p, size_t size, int filled) {
    int i;
    if (p == NULL) abort();
    if (filled >= 0) memset(p, filled, size);
    memset(p + size, 0xC5, GUARD);
    pthread_mutex_lock(&lock);
    for (i = 0; i < MAX_BLOCKS && blocks[i].at != NULL; i++);
    if (i == MAX_BLOCKS) abort();
    blocks[i].at = p;
    blocks[i].size = size;
    heap_alive++;
    pthread_mutex_unlock(&lock);
    return p;
}

/* A block that was allocated before the context began is not in the table and is ignored. */
static void unregister(unsigned char *p) {
    int i, k;
    pthread_mutex_lock(&lock);
    for (i = 0; p != NULL && i < MAX_BLOCKS; i++) {
        if (blocks[i].at != p) continue;
        for (k = 0; k < GUARD && p[blocks[i].size + k] == 0xC5; k++);
        if (k < GUARD) heap_overrun++;
        blocks[i].at = NULL;
        heap_alive--;
    }
    pthread_mutex_unlock(&lock);
}

void *heap_malloc(size_t n) { return is_refused() ? NULL : registered(malloc(n + GUARD), n, 0xAB); }
void *heap_calloc(size_t count, size_t n) {
    return is_refused() ? NULL : registered(malloc(count * n + GUARD), count * n, 0);
}
void *heap_realloc(void *p, size_t n) {
    if (is_refused()) return NULL;
    unregister(p);
    return registered(realloc(p, n + GUARD), n, -1);
}
int heap_posix_memalign(void **out, size_t alignment, size_t n) {
    void *p = NULL;
    if (is_refused()) return ENOMEM;
    if (posix_memalign(&p, alignment, n + GUARD) != 0) abort();
    *out = registered(p, n, 0xAB);
    return 0;
}
void heap_free(void *p) { unregister(p); free(p); }

/* Every other read is interrupted; the rest return at most pread_max bytes, or fail if they touch a bad byte. */
long pread_calls, pread_max, pread_bad_start, pread_bad_end;
static ssize_t short_pread(int descriptor, void *to, size_t n, off_t at) {
    if (++pread_calls % 2) { errno = EINTR; return -1; }
    if (at < pread_bad_end && pread_bad_start < (long)(at + n)) { errno = EIO; return -1; }
    return pread(descriptor, to, n < (size_t)pread_max ? n : (size_t)pread_max, at);
}
ssize_t heap_pread(int descriptor, void *to, size_t n, off_t at) { return short_pread(descriptor, to, n, at); }
ssize_t heap_pread64(int descriptor, void *to, size_t n, off_t at) { return short_pread(descriptor, to, n, at); }

/* preadv2 from the page cache, the only system call that is made by its number: it has the first pread_cached bytes. */
long pread_cached, pread_cached_calls;
long heap_syscall(long number, long descriptor, struct iovec *span, long spans, long at, long high, long flags) {
    if (number != SYS_preadv2 || spans != 1 || high != 0 || flags != 8 /* RWF_NOWAIT */) abort();
    pread_cached_calls++;
    if (pread_cached == 0) { errno = EAGAIN; return -1; }
    return pread(descriptor, span->iov_base, span->iov_len < (size_t)pread_cached ? span->iov_len : pread_cached, at);
}
"""


@functools.cache
def library() -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux" or sys.maxsize < 2**32:
        pytest.skip("needs a C compiler, and ELF files of 64 bits")
    with tempfile.TemporaryDirectory() as folder:
        source, compiled = Path(folder, "heap.c"), Path(folder, "heap.so")
        source.write_text(SOURCE, encoding="utf-8")
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", compiled, source, "-lpthread"], check=True)
        return ctypes.CDLL(str(compiled))


def references(path: Path) -> dict[str, int]:
    """Return, by function name, where a module stores the function's address: an offset in it. ELF64, RELA."""
    data = path.read_bytes()
    assert data[:5] == b"\x7fELF\x02"
    (at,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + n * size) for n in range(count)]
    offsets = {}
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind != RELA or sections[link][1] != DYNAMIC_SYMBOLS:
            continue
        symbols, strings = sections[link][4], sections[sections[link][6]][4]
        for entry in range(start, start + length, 24):
            place, info = struct.unpack_from("<QQ", data, entry)
            begin = strings + struct.unpack_from("<I", data, symbols + (info >> 32) * 24)[0]
            name = data[begin : data.index(0, begin)].decode()
            offsets[name] = place
    return offsets


def loaded_at(path: Path) -> int:
    """Return the address of a loaded file's first byte."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        words = line.split(maxsplit=5)
        if words[-1] == str(path) and int(words[2], 16) == 0:
            return int(words[0].partition("-")[0], 16)
    raise AssertionError(f"{path} is not loaded")


class _RedirectedCalls:
    """A module's references to some functions of the C library, redirected to the functions of `library`."""

    names: tuple[str, ...] = ()

    def __init__(self, *modules: ModuleType):
        self.library = library()
        self.places = []
        for module in modules:
            path = Path(module.__file__).resolve()
            first, places = loaded_at(path), references(path)
            named = [name for name in self.names if name in places]
            self.places += [(name, ctypes.c_void_p.from_address(first + places[name])) for name in named]
        assert self.places
        self.originals = [place.value for _, place in self.places]

    def redirect(self):
        for name, place in self.places:
            page = ctypes.addressof(place) // PAGE * PAGE
            ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), READ_WRITE)
            place.value = ctypes.cast(self.library[f"heap_{name}"], ctypes.c_void_p).value

    def restore(self):
        for (_, place), original in zip(self.places, self.originals, strict=True):
            place.value = original

    def number(self, name: str) -> ctypes.c_long:
        return ctypes.c_long.in_dll(self.library, name)


class Allocations(_RedirectedCalls):
    """See the module's docstring. `refused` counts from 1; 0: no allocation is refused."""

    names = HEAP
    calls = alive = overrun = 0

    def __init__(self, module: ModuleType, refused: int = 0):
        super().__init__(*{module, _core})
        self.refused = refused

    def __enter__(self) -> Allocations:
        gc.disable()  # so that no buffer of other code is released in between, and then recycled
        kafkarec.release_memory()
        self.library.heap_begin(ctypes.c_long(self.refused))
        self.redirect()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        kafkarec.release_memory()
        if self.number("heap_alive").value:
            gc.collect()
            kafkarec.release_memory()
        gc.enable()
        self.restore()
        self.calls, self.alive, self.overrun = (self.number(f"heap_{n}").value for n in ("calls", "alive", "overrun"))


class Preads(_RedirectedCalls):
    """See the module's docstring. Every other pread is interrupted by a signal.

    cached          bytes from each position that are in the page cache
    .calls          of pread
    .cached_calls   that read nothing but the page cache
    """

    names = READS
    calls = cached_calls = 0

    def __init__(self, module: ModuleType, max_bytes: int = 1 << 30, bad: range = range(0), cached: int = 0):
        super().__init__(module)
        self.max_bytes, self.bad, self.cached = max_bytes, bad, cached

    def __enter__(self) -> Preads:
        values = {"calls": 0, "max": self.max_bytes, "bad_start": self.bad.start, "bad_end": self.bad.stop}
        for name, value in (values | {"cached": self.cached, "cached_calls": 0}).items():
            self.number(f"pread_{name}").value = value
        self.redirect()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self.restore()
        self.calls, self.cached_calls = (self.number(f"pread_{name}").value for name in ("calls", "cached_calls"))


# ---- recycled buffers

SIZE_CLASSES = [(4 + k % 4) << (10 + k // 4) for k in range(80)]
"""Bytes of each class, as `_c/pages.pxd` describes them: 4, 5, 6, 7, 8, 10, 12 ... KiB."""


def class_of(size: int) -> int:
    """Return the bytes that a recycled buffer of `size` takes."""
    return next(one for one in SIZE_CLASSES if one >= size)
