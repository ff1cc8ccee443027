"""The long crash drill: 200 kills of the service at random moments during a stream of short jobs.

python bench/crash_drill.py [KILLS] [SEED]
"""

import sys
import tempfile
from pathlib import Path

from tools.crash_drill import CrashDrill


def main() -> int:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory(prefix="gangline-drill-") as directory:
        drill = CrashDrill(Path(directory), kills=kills, seed=seed, say=print)
        try:
            report = drill.run()
        finally:
            drill.clean()
    print(report)
    print("sound" if report.sound else "NOT SOUND")
    return 0 if report.sound else 1


if __name__ == "__main__":
    sys.exit(main())
