"""The first step of the pipeline: take as many training images as asked for, and all test images, into a folder."""

import argparse
import gzip
import struct
from pathlib import Path

from gangline import runtime

FILES = {
    "train-images-idx3-ubyte.gz": 16,
    "train-labels-idx1-ubyte.gz": 8,
    "t10k-images-idx3-ubyte.gz": 16,
    "t10k-labels-idx1-ubyte.gz": 8,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, required=True)
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    for name, header in FILES.items():
        with gzip.open(runtime.current().data_directory / name) as file:
            content = file.read()
        count = struct.unpack(">i", content[4:8])[0]
        if name.startswith("train"):
            size = (len(content) - header) // count
            count = min(count, options.images)
            content = content[:4] + struct.pack(">i", count) + content[8 : header + count * size]
        # Without a time in it, so that the same images are the same file.
        (options.to / name).write_bytes(gzip.compress(content, compresslevel=1, mtime=0))
    print(f"{options.images} images for training")


if __name__ == "__main__":
    main()
