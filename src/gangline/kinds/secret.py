"""The kind Secret: values that the jobs of a tenant get as variables. The record says which there are, and no more."""

from gangline.kinds.derived import derived_format
from gangline.kinds.kind import Column, Kind
from gangline.model.kinds.secret import Secret
from gangline.model.record import NoStatus, Record

SecretRecord = Record[Secret, NoStatus]

SECRET: Kind[Secret, NoStatus, SecretRecord] = Kind(
    name="secret",
    plural="secrets",
    made_by="set NAME",
    summary="Keep values that jobs get as variables, and that nothing shows.",
    description="The names of values that jobs get as variables; the values are in a Secret of the same name.",
    spec=Secret,
    format=derived_format(Secret, "Secret", "Which values it has."),
    answer=SecretRecord,
    editable=True,
    columns=(Column("KEYS", lambda secret: ", ".join(secret.spec.keys) or None),),
    secrets=lambda spec: (spec.name,),
)
