"""A model most of whose tensors lie beyond 4 GiB of its file: the same as a small one, but for a coarse alignment. The holes between its tensors take no room on the
disk."""

import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of GGUF's value types
STRING, ARRAY = 8, 9


def write(source, target, alignment=1 << 28):
    """Copies the GGUF file `source`, whose alignment is the usual 32 bytes, to `target` with another."""
    data = bytearray(source.read_bytes())
    at = 8

    def take(form):
        nonlocal at
        (value,) = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value

    def skip_string():
        nonlocal at
        length = take("Q")
        at += length
        return bytes(data[at - length : at])

    def skip(kind):
        nonlocal at
        if kind == STRING:
            skip_string()
        elif kind == ARRAY:
            item, count = take("I"), take("Q")
            for _ in range(count if item in (STRING, ARRAY) else 0):
                skip(item)
            at += count * SIZES.get(item, 0)
        else:
            at += SIZES[kind]

    tensors, pairs = take("Q"), take("Q")
    begin = at
    for _ in range(pairs):
        assert skip_string() != b"general.alignment"
        skip(take("I"))
    key, places = b"general.alignment", []
    for _ in range(tensors):
        skip_string()
        dimensions = take("I")
        at += 8 * dimensions + 4
        places.append((at, take("Q")))
    start = (at + 31) // 32 * 32
    ends = [offset for _, offset in places[1:]] + [len(data) - start]
    pair = struct.pack("<Q", len(key)) + key + struct.pack("<II", 4, alignment)
    with open(target, "wb") as file:
        to = alignment  # the header fits in front of it
        for (place, offset), end in zip(places, ends):
            struct.pack_into("<Q", data, place, to - alignment)
            file.seek(to)
            file.write(data[start + offset : start + end])
            to += (end - offset + alignment - 1) // alignment * alignment
        struct.pack_into("<Q", data, 16, pairs + 1)
        file.seek(0)
        file.write(data[:begin] + pair + data[begin:at])
