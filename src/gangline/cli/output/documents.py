"""Values as text for ``-o json``, ``yaml``, ``csv`` and expressions: what the service answers, so that all agree."""

import json
from collections.abc import Iterable, Sequence

import click

from gangline.wire import plain


def json_text(value: object) -> str:
    """Write a value as JSON."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False)


def yaml_text(value: object) -> str:
    """Write a value as YAML."""
    import yaml

    return str(yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True)).rstrip("\n")


def print_expression(values: Sequence[object], output: str, *, single: bool = False) -> bool:
    """Print values as ``-o jsonpath=`` or ``-o custom-columns=`` says; False if ``output`` is neither.

    A path begins at the value itself where one was asked for (``single``), else at a mapping whose ``items`` they are.
    """
    if "=" not in output:
        return False
    # Only who writes such an expression waits for what reads it.
    from gangline.cli.output import expressions, table

    found = [plain(value) for value in values]
    if output.startswith(expressions.COLUMNS):
        columns = expressions.columns_of(output.removeprefix(expressions.COLUMNS))
        rows = [expressions.cells_of(columns, each) for each in found]
        for line in table.lines([name for name, _ in columns], rows):
            click.echo(line)
    else:
        root = found[0] if single else {"items": found}
        click.echo(expressions.text_of(output.removeprefix(expressions.JSONPATH), root))
    return True


def csv_text(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write rows as CSV, with a line of headings."""
    import csv
    import io

    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([headings, *rows])
    return written.getvalue()
