"""Opens the files of a log: the content of packed ones, no encoded objects of tiered storage, no devices."""

from __future__ import annotations

from kafkarec.format.layout import MAX_SIZE, UP_TO_MAGIC
from kafkarec.sources import packed
from kafkarec.sources.files import ByteSource
from kafkarec.sources.folders import Folder

from . import names, tiered


def open_file(folder: Folder, name: str) -> ByteSource:
    """The source of a file; of a .gz or .zst file that of its content. A block device may have any name but one of a
    segment or its side files.

    OSError if it cannot be opened; UnsupportedCompressionError for compressed or encrypted objects of tiered storage.
    """
    source = folder.open(name, disk=names.segment(name) is None)
    try:
        if names.is_packed(name):
            # Positions in a segment are int32; fewer bytes than a frame's start would be a tail and not damage.
            return packed.unpacked(source, MAX_SIZE, UP_TO_MAGIC)
        tiered.refuse_encoded(source, name, folder.read)
    except BaseException:
        source.close()
        raise
    return source
