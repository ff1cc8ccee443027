"""The last step of the pipeline: leave the model where it is registered from, with its accuracy."""

import argparse
import shutil
from pathlib import Path

from gangline import runtime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--accuracy", type=float, required=True)
    parser.add_argument("--to", type=Path, required=True)
    options = parser.parse_args()
    options.to.mkdir()
    shutil.copyfile(options.model, options.to / "model.npz")
    runtime.report(accuracy=options.accuracy)


if __name__ == "__main__":
    main()
