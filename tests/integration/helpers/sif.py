"""Files of the Singularity Image Format (SIF), as Apptainer writes them."""

import struct

SQUASHFS, EXT3, ENCRYPTED = 1, 2, 5
SYSTEM, PRIMARY, DATA, OVERLAY = 1, 2, 3, 4
DEFINITION, PARTITION = 0x4001, 0x4004
TABLE, DESCRIPTOR, ALIGNMENT = 4096, 585, 4096


def descriptor(number, kind, offset, size, extra=b""):
    start = struct.pack("<iBIIIqqqqqqq", kind, 1, number, 0xf0000001, 0, offset, size, size, 0, 0, 0, 0)
    return start + b"name".ljust(128, b"\0") + extra.ljust(384, b"\0")


def header(descriptors, total=48):
    start = b"#!/usr/bin/env run-singularity\n".ljust(32, b"\0") + b"SIF_MAGIC\0" + b"01\0" + b"02\0" + bytes(16)
    return start + struct.pack("<qqqqqqqq", 0, 0, total - descriptors, total, TABLE, total * DESCRIPTOR, TABLE + total * DESCRIPTOR, 0)


def make(path, *partitions):
    """Writes a SIF file with a definition and the partitions: (content, file system, purpose)."""
    definition = b"bootstrap: docker\n"
    offset = 32768
    content = definition
    table = descriptor(1, DEFINITION, offset, len(definition))
    for number, (bytes_, filesystem, purpose) in enumerate(partitions, start=2):
        content += bytes(-len(content) % ALIGNMENT)
        table += descriptor(number, PARTITION, offset + len(content), len(bytes_), struct.pack("<ii", filesystem, purpose) + b"02\0")
        content += bytes_
    path.write_bytes((header(len(partitions) + 1).ljust(TABLE, b"\0") + table).ljust(offset, b"\0") + content)
    return path
