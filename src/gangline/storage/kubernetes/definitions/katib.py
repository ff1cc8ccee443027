"""The custom resources of Katib, ``kubeflow.org/v1beta1``: Experiment, Trial and Suggestion. Pure.

What a schema can say of an Experiment the server refuses at ``kubectl apply``; the rest is said in its conditions.
"""

from typing import Any

from gangline.dialects.katib import API_VERSION, ResumePolicy, Strategy
from gangline.dialects.katib.collectors import CollectorKind, FileFormat
from gangline.dialects.katib.space import Distribution, ParameterType
from gangline.model.kinds.sweep import Goal

Schema = dict[str, Any]

_GROUP, _, _VERSION = API_VERSION.partition("/")
_TEXT: Schema = {"type": "string"}
_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_MOMENT: Schema = {"type": "string", "format": "date-time"}
_NAMES: Schema = {"type": "array", "items": _TEXT}
_LONGEST_NAME = 40


def katib_definitions(categories: list[str]) -> tuple[Schema, ...]:
    """Return the three definitions; ``categories`` mark them as ours to serve."""
    named = {
        "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && "
        f"size(self.metadata.name) <= {_LONGEST_NAME}",
        "message": "metadata.name: lower-case letters, digits and '-', beginning with a letter, at most 40 of them",
    }
    experiment = {"x-kubernetes-validations": [named], "required": ["spec"]}
    return (
        _definition("Experiment", "experiments", categories, _EXPERIMENT_SPEC, experiment),
        _definition("Trial", "trials", categories, _described(_ANYTHING, "What the trial tries."), {}),
        _definition("Suggestion", "suggestions", categories, _described(_ANYTHING, "What was asked for."), {}),
    )


def _definition(kind: str, plural: str, categories: list[str], spec: Schema, rest: Schema) -> Schema:
    texts = {
        "Experiment": "Experiment: a search of Katib's, run by Gangline; each trial is a job of its own.",
        "Trial": "Trial: one trial of an Experiment; written by Gangline.",
        "Suggestion": "Suggestion: what was chosen for the trials of an Experiment; written by Gangline.",
    }
    columns = [
        {"name": "Type", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
        {"name": "Status", "type": "string", "jsonPath": ".status.conditions[-1:].status"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    root = {
        "type": "object",
        "description": texts[kind],
        "properties": {"spec": spec, "status": _STATUS},
        **rest,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "categories": categories,
            },
            "conversion": {"strategy": "None"},
            "versions": [
                {
                    "name": _VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": root},
                }
            ],
        },
    }


def _described(schema: Schema, text: str) -> Schema:
    return {**schema, "description": text}


def _choice(text: str, *values: str) -> Schema:
    return {"type": "string", "enum": [str(value) for value in values], "description": text}


def _object(text: str, properties: dict[str, Schema], **rest: Any) -> Schema:
    return {"type": "object", "description": text, "properties": properties, **rest}


def _settings(text: str) -> Schema:
    item = _object(
        "One setting.",
        {"name": _described(_TEXT, "What is set."), "value": _described(_TEXT, "Its value, as text.")},
        required=["name", "value"],
    )
    return {"type": "array", "description": text, "items": item}


_SPACE = _object(
    "The values it may have.",
    {
        "min": _described(_TEXT, "The least value, of double and int."),
        "max": _described(_TEXT, "The largest value."),
        "step": _described(_TEXT, "How far apart neighbouring values are."),
        "list": {"type": "array", "description": "The values of discrete and categorical.", "items": _TEXT},
        "distribution": _choice("How likely the values are.", *Distribution),
    },
)
_PARAMETER = _object(
    "One parameter.",
    {
        "name": _described({**_TEXT, "minLength": 1}, "Its name."),
        "parameterType": _choice("double, int, discrete or categorical.", *ParameterType),
        "feasibleSpace": _SPACE,
    },
    required=["name", "parameterType", "feasibleSpace"],
)
_OBJECTIVE = _object(
    "What trials are compared by.",
    {
        "type": _choice("Which value is better.", *Goal),
        "goal": {"type": "number", "format": "double", "description": "A value that ends the search."},
        "objectiveMetricName": _described({**_TEXT, "minLength": 1}, "The metric that counts."),
        "additionalMetricNames": _described(_NAMES, "Other metrics to collect."),
        "metricStrategies": {
            "type": "array",
            "description": "Which of the reported values counts.",
            "items": _object(
                "The strategy of one metric.",
                {"name": _described(_TEXT, "The metric."), "value": _choice("min, max or latest.", *Strategy)},
                required=["name", "value"],
            ),
        },
    },
    required=["type", "objectiveMetricName"],
)
_COLLECTOR = _object(
    "Where numbers are read from.",
    {
        "collector": _object(
            "Who reads them.",
            {
                "kind": _choice("StdOut, File, TensorFlowEvent, PrometheusMetric, Push or None.", *CollectorKind),
                "customCollector": _described(_ANYTHING, "Not supported."),
            },
        ),
        "source": _object(
            "Where they are.",
            {
                "fileSystemPath": _object(
                    "A file or a directory of the container.",
                    {
                        "path": _described(_TEXT, "Its absolute path."),
                        "kind": _choice("File or Directory.", "File", "Directory"),
                        "format": _choice("TEXT or JSON.", *FileFormat, ""),
                    },
                ),
                "filter": _object(
                    "How numbers look.",
                    {"metricsFormat": _described(_NAMES, "Regular expressions with a group for name and value.")},
                ),
                "httpGet": _described(_ANYTHING, "The port and path of a Prometheus endpoint."),
            },
        ),
    },
)
_TEMPLATE = _object(
    "The object that every trial is made from.",
    {
        "retain": {"type": "boolean", "description": "Whether pods stay when a trial has ended."},
        "trialSpec": _described(
            {**_ANYTHING, "x-kubernetes-embedded-resource": False},
            "A Job, a training job of Kubeflow, or a Job of ours.",
        ),
        "configMap": _object(
            "Where the template is kept.",
            {
                "configMapName": _described(_TEXT, "The ConfigMap."),
                "configMapNamespace": _described(_TEXT, "Its namespace."),
                "templatePath": _described(_TEXT, "The key in it."),
            },
        ),
        "trialParameters": {
            "type": "array",
            "description": "Names in the template, and what they stand for.",
            "items": _object(
                "One name.",
                {
                    "name": _described(_TEXT, "The name in ${trialParameters.NAME}."),
                    "description": _described(_TEXT, "For readers."),
                    "reference": _described(_TEXT, "A parameter, or ${trialSpec.Name} and the like."),
                },
                required=["name", "reference"],
            ),
        },
        "primaryPodLabels": {
            "type": "object",
            "description": "Which pods' numbers count.",
            "additionalProperties": _TEXT,
        },
        "primaryContainerName": _described(_TEXT, "The container that trains."),
        "successCondition": _described(_TEXT, "A GJSON path: the trial has succeeded if it finds something."),
        "failureCondition": _described(_TEXT, "A GJSON path: the trial has failed if it finds something."),
    },
    required=["primaryContainerName", "trialParameters"],
)
_TRIALS: Schema = {"type": "integer", "format": "int32", "minimum": 1}
_EXPERIMENT_SPEC = _object(
    "What is searched, how, and with which job.",
    {
        "parameters": {"type": "array", "description": "The search space.", "minItems": 1, "items": _PARAMETER},
        "objective": _OBJECTIVE,
        "algorithm": _object(
            "Who chooses values.",
            {
                "algorithmName": _described(_TEXT, "random, grid, sobol, tpe, multivariate-tpe, cmaes, ..."),
                "algorithmSettings": _settings("What it is told besides."),
            },
            required=["algorithmName"],
        ),
        "earlyStopping": _object(
            "When hopeless trials are stopped.",
            {
                "algorithmName": _choice("The rule.", "medianstop"),
                "algorithmSettings": _settings("min_trials_required and start_step."),
            },
            required=["algorithmName"],
        ),
        "trialTemplate": _TEMPLATE,
        "parallelTrialCount": _described(_TRIALS, "How many trials may run at once. Default: 3."),
        "maxTrialCount": _described(_TRIALS, "How many trials there are at most."),
        "maxFailedTrialCount": {**_TRIALS, "minimum": 0, "description": "How many trials may fail."},
        "metricsCollectorSpec": _COLLECTOR,
        "nasConfig": _described(_ANYTHING, "Not supported."),
        "resumePolicy": _choice("Whether it goes on when it is given more trials.", *ResumePolicy),
    },
    required=["parameters", "objective", "algorithm", "trialTemplate"],
)
_STATUS: Schema = {
    **_ANYTHING,
    "description": "How it is doing; written by Gangline.",
    "properties": {
        "conditions": {
            "type": "array",
            "description": "Where it is and was, the newest last.",
            "items": _object(
                "One condition.",
                {
                    "type": _described(_TEXT, "Created, Running, Succeeded, Failed, ..."),
                    "status": _described(_TEXT, "True, or False once it is over."),
                    "reason": _described(_TEXT, "Why, in one word."),
                    "message": _described(_TEXT, "Why, in a sentence."),
                    "lastUpdateTime": _described(_MOMENT, "When it was last told."),
                    "lastTransitionTime": _described(_MOMENT, "Since when it is so."),
                },
                required=["type", "status"],
            ),
        },
        "record": _described(_ANYTHING, "What Gangline remembers of it."),
    },
}
