"""Values as text for ``-o json`` and ``-o yaml``: what the service answers, so that both read alike."""

import json

from gangline.wire import plain


def json_text(value: object) -> str:
    """Write a value as JSON."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False)


def yaml_text(value: object) -> str:
    """Write a value as YAML."""
    import yaml

    return str(yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True)).rstrip("\n")
