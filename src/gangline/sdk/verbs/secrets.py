"""The verbs of secrets. Values go into a Secret of the tenant, and nothing ever returns them."""

import json
from collections.abc import Mapping

from gangline.errors import ConflictError, GanglineError
from gangline.kinds.secret import SecretRecord
from gangline.model.kinds.secret import Secret
from gangline.sdk.verbs.records import Records


class Secrets(Records[Secret, SecretRecord]):
    """Asks one service about the secrets of one tenant; made by ``Client``."""

    def set(self, name: str, values: Mapping[str, str]) -> SecretRecord:
        """Keep values under a name, in place of what it held; jobs that start from now on get them."""
        spec = Secret(name=name, tenant=self._client.tenant, keys=tuple(sorted(values)))
        try:
            made, new = self.create(spec), True
        except ConflictError:
            made, new = self.edit(spec), False
        document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": dict(values)}
        try:
            self._client.put_object(json.dumps(document))
        except GanglineError:
            if new:
                self.delete(name)
            raise
        return made
