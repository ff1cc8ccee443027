"""Which dialect a document is written in, by its apiVersion and kind or, for FfDL, by its shape."""

from collections.abc import Mapping

from gangline.dialects import document, ffdl, kubeflow, native
from gangline.dialects.native.job import NO_SIZES
from gangline.dialects.translation import Translation
from gangline.dialects.value import Value, nearest
from gangline.model import Resources


def read(
    text: str,
    *,
    file: str | None = None,
    sizes: Mapping[str, Resources] = NO_SIZES,
    strict: bool = False,
) -> tuple[Translation, ...]:
    """Read every job of a file, each in its own dialect.

    ``sizes`` adds the user's own T-shirt sizes; ``strict`` keeps upstream's behaviour of Kubeflow jobs.
    """
    return tuple(
        translation
        for value in document.parse(text, file=file)
        for translation in _translations(value, sizes, strict=strict)
    )


def read_plain(
    data: object,
    *,
    file: str | None = None,
    sizes: Mapping[str, Resources] = NO_SIZES,
    strict: bool = False,
) -> tuple[Translation, ...]:
    """Read already decoded JSON: one job, or a Kubernetes ``List`` of them."""
    return _translations(document.plain(data, file=file), sizes, strict=strict)


def _translations(value: Value, sizes: Mapping[str, Resources], *, strict: bool) -> tuple[Translation, ...]:
    if ffdl.looks_like_manifest(value):
        return (ffdl.job_from_value(value),)
    top = value.fields()
    kind = top["kind"].text() if "kind" in top else native.KIND
    group = top["apiVersion"].text().partition("/")[0] if "apiVersion" in top else native.API_VERSION.partition("/")[0]
    if kind == "List" and "items" in top:
        return tuple(
            translation for item in top["items"].items() for translation in _translations(item, sizes, strict=strict)
        )
    if kind == native.KIND and group == native.API_VERSION.partition("/")[0]:
        return (Translation(spec=native.job_from_value(value, sizes=sizes)),)
    if kind in kubeflow.KINDS:
        return (kubeflow.job_from_value(value, strict=strict),)
    known = (native.KIND, *kubeflow.KINDS)
    if kind in known:
        raise top["apiVersion"].wrong(
            f"'{top['apiVersion'].data}' is not known for kind {kind}", expected=native.API_VERSION
        )
    raise top["kind"].wrong(
        f"unknown kind '{kind}'", expected=f"one of {', '.join(known)}", suggestion=nearest(kind, known)
    )
