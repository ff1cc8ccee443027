"""The custom resource definitions, field by field. Pure."""
