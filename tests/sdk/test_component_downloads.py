"""Components that a graph names by an address: files are read where they are, others are downloaded."""

import hashlib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from gangline.dialects import document
from gangline.dialects.pipeline import read_graph
from gangline.errors import InvalidInputError
from gangline.sdk.loading import with_components

COMPONENT = """
name: Count
inputs: [{name: Text, type: String}]
outputs: [{name: Lines, type: Integer}]
implementation: {container: {image: alpine, command: [count, {inputPath: Text}, {outputPath: Lines}]}}
"""
GRAPH = """
name: Around
inputs: [{{name: Text, type: String}}]
implementation:
  graph:
    tasks:
      Count:
        componentRef: {reference}
        arguments: {{Text: {{graphInput: {{inputName: Text}}}}}}
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass

    def log_error(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "count.yaml").write_text(COMPONENT, encoding="utf-8")
    (folder / "around.yaml").write_text(GRAPH.format(reference="{url: count.yaml}"), encoding="utf-8")
    (folder / "picture.yaml").write_bytes(b"\x89PNG\xff")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def read(reference: str, tmp_path: Path) -> list[str]:
    (value,) = document.parse(GRAPH.format(reference=reference), file="graph.yaml")
    return sorted(read_graph([with_components(value, str(tmp_path / "graph.yaml"))]).components)


def test_a_component_is_downloaded(site: str, tmp_path: Path) -> None:
    digest = hashlib.sha256(COMPONENT.encode()).hexdigest()
    assert len(read(f'{{url: "{site}/count.yaml", digest: {digest}}}', tmp_path)) == 1


def test_what_a_downloaded_graph_names_is_seen_from_its_address(site: str, tmp_path: Path) -> None:
    assert len(read(f'{{url: "{site}/around.yaml"}}', tmp_path)) == 2


@pytest.mark.parametrize(
    ("reference", "want"),
    [
        ('{{url: "{site}/none.yaml"}}', "cannot be downloaded: HTTP Error 404"),
        ('{{url: "{site}/picture.yaml"}}', "cannot be downloaded"),
        ('{{url: "{site}/count.yaml", digest: abc}}', "is another file"),
        ("{{url: 'ftp://127.0.0.1/count.yaml'}}", "expected a path or an https:// address"),
        ("{{url: 'http://127.0.0.1:1/count.yaml'}}", "cannot be downloaded: [Errno"),
    ],
)
def test_what_cannot_be_had_is_refused_with_its_address(site: str, tmp_path: Path, reference: str, want: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read(reference.format(site=site), tmp_path)
    assert want in str(refused.value)
