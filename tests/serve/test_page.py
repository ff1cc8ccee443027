"""The commands of docs/serving.md, typed as they stand but for the port."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"


def test_the_first_example_answers_as_the_page_shows(tmp_path: Path) -> None:
    text = PAGE.read_text()
    handler = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    console = re.search(r"```console\n(\$ python -m gangline\.serve.*?)```", text, re.DOTALL)
    assert handler is not None
    assert console is not None
    start, _, ask, answer = console[1].strip().splitlines()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "handler.py").write_text(handler[1])
    command = start.removeprefix("$ python ").replace("8080", "0").split()
    log = tmp_path / "log"
    with log.open("w") as file:
        server = subprocess.Popen([sys.executable, *command], stderr=file, cwd=tmp_path, env=os.environ)
    try:
        printed = ""
        for _ in range(600):
            if (port := re.search(r"http://127.0.0.1:(\d+)", log.read_text())) is not None:
                typed = ask.removeprefix("$ ").replace("8080", port[1])
                printed = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, check=True).stdout
                if "not ready" not in printed:
                    break
            threading.Event().wait(0.1)
        assert printed == answer, log.read_text()
    finally:
        server.terminate()
        assert server.wait(60) == 0
