"""One parser for every address that a job file, a checkpoint or a model may name."""

import pytest

from gangline.data.addresses import Address, AddressError, parse

READ = [
    ("/data/mnist", Address("/data/mnist", "file", path="/data/mnist")),
    ("data/mnist/", Address("data/mnist/", "file", path="data/mnist/", is_folder=True)),
    ("$DATA_DIR", Address("$DATA_DIR", "file", path="$DATA_DIR")),
    ("file:///a%20b", Address("file:///a%20b", "file", path="/a b")),
    ("file://localhost/a", Address("file://localhost/a", "file", path="/a")),
    ("https://host/a%20b?v=1", Address("https://host/a%20b?v=1", "https", "host", "/a b")),
    ("s3://bucket", Address("s3://bucket", "s3", "bucket")),
    ("S3A://bucket/a%20b/", Address("S3A://bucket/a%20b/", "s3", "bucket", "a%20b", is_folder=True)),
    ("gcs://bucket/x", Address("gcs://bucket/x", "gs", "bucket", "x")),
    ("az://container/x/y", Address("az://container/x/y", "az", "container", "x/y")),
    ("nfs://host/export/x", Address("nfs://host/export/x", "nfs", "host", "/export/x")),
    ("pvc://claim/x", Address("pvc://claim/x", "pvc", "claim", "x")),
    ("job://mnist/results", Address("job://mnist/results", "job", "mnist", "results")),
    ("job://mnist/results/model", Address("job://mnist/results/model", "job", "mnist", "results/model")),
    ("model://mnist", Address("model://mnist", "model", "mnist")),
    ("model://mnist:3", Address("model://mnist:3", "model", "mnist", version="3")),
    ("model://mnist@production", Address("model://mnist@production", "model", "mnist", alias="production")),
]


@pytest.mark.parametrize(("text", "want"), READ, ids=[text for text, _ in READ])
def test_an_address_is_read(text: str, want: Address) -> None:
    assert parse(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("ftp://host/x", "ftp:// is not known"),
        ("s3:///key", "s3://BUCKET/path"),
        ("s3://bucket/a/../b", "without '..'"),
        ("pvc://claim/../other", "without '..'"),
        ("pvc://../other", "pvc://CLAIM/path"),
        ("file://other/x", "a file of other"),
        ("job://mnist", "job://NAME/results"),
        ("job://mnist/logs", "job://NAME/results"),
        ("model://mnist:latest", "model://NAME:VERSION"),
        ("model://mnist/part", "model://NAME"),
        ("https://", "https://HOST/path"),
    ],
)
def test_what_is_no_address_is_refused_with_what_would_be_right(text: str, want: str) -> None:
    with pytest.raises(AddressError) as refusal:
        parse(text)
    assert want in str(refusal.value)
    assert text in str(refusal.value)


@pytest.mark.parametrize(
    "text",
    [
        "s3://AKIA:hidden@bucket/x",
        "https://ada:hidden@host/x",
        "az://box@hidden/x",
        "gcs://hidden@b",
        "nfs://hidden@h/x",
    ],
)
def test_an_address_with_a_key_in_it_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(AddressError, match="gangline store add") as refusal:
        parse(text)
    assert "hidden" not in str(refusal.value)


def test_a_relative_path_means_nothing_to_a_mover() -> None:
    with pytest.raises(AddressError, match="relative path"):
        parse("data/mnist").local_path()


def test_an_entry_of_a_folder_has_an_address_of_its_own() -> None:
    assert parse("s3://bucket/run/").below("a/b") == Address("s3://bucket/run/a/b", "s3", "bucket", "run/a/b")
    assert parse("s3://bucket").below("a") == Address("s3://bucket/a", "s3", "bucket", "a")
