#!/usr/bin/env python3
"""Makes the golden vectors of this folder with an independent implementation: the `gguf` Python package (with numpy).

    python3 tests/data/dequant/make.py

One file per weight type, little-endian: u32 number of blocks, the blocks, then their elements as float32. The first
blocks are random; in the others the scales are zero, minus zero, subnormal, the largest, infinite and NaN.
"""
import pathlib

import gguf
import numpy as np

# Byte offsets of the half-float scales in a block of each type.
SCALES = {
    "F32": (), "F16": (), "BF16": (), "Q8_0": (0,), "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2),
    "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,),
    "MXFP4": (),
}
ODD_HALVES = (0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E01)
ODD_FLOATS = (0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001)


def blocks_of(name, rng):
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    if elements == 1:
        odd = {"F32": ODD_FLOATS, "F16": ODD_HALVES, "BF16": tuple(f >> 16 for f in ODD_FLOATS)}[name]
        edge = np.array(odd, dtype=np.uint32 if size == 4 else np.uint16).view(np.uint8).reshape(-1, size)
        return np.concatenate([rng.integers(0, 256, (56, size), dtype=np.uint8), edge])
    blocks = rng.integers(0, 256, (11, size), dtype=np.uint8)
    for row, half in enumerate(ODD_HALVES):
        for offset in SCALES[name]:
            blocks[3 + row, offset:offset + 2] = (half & 0xFF, half >> 8)
    if name == "MXFP4":
        blocks[3:, 0] = (0, 1, 2, 126, 127, 128, 254, 255)
    for offset in SCALES[name]:  # the random blocks: ordinary scales, both signs
        blocks[:3, offset + 1] = blocks[:3, offset + 1] & 0x80 | 0x2C
    return blocks


def values_of(name, blocks):
    if name == "F32":
        return blocks.view(np.float32).reshape(-1)
    if name == "F16":
        return blocks.view(np.float16).astype(np.float32).reshape(-1)
    return gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name]).astype(np.float32).reshape(-1)


def main():
    folder = pathlib.Path(__file__).parent
    with np.errstate(all="ignore"):
        for number, name in enumerate(SCALES):
            blocks = blocks_of(name, np.random.default_rng(number))
            data = np.uint32(len(blocks)).tobytes() + blocks.tobytes() + values_of(name, blocks).tobytes()
            (folder / f"{name}.bin").write_bytes(data)


main()
