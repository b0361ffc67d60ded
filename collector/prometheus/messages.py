"""The protobuf messages of remote write 1.0 and 2.0, declared here as far as they are read.

They are few, small and frozen by their specifications, so they are declared in the words of the library rather than
generated: no compiler is needed to build this, and no generated file can drift from its source. What stands within a
series is declared as bytes where it is read later or only counted, which on the wire is the same.

Sources: Prometheus, specs/prw/remote_write_spec and remote_write_spec_2_0; prompb/types.proto and
prompb/io/prometheus/write/v2/types.proto for the numbers of fields.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

__all__ = ["V1", "V2", "DecodeError", "messages"]

V1, V2 = "prometheus.WriteRequest", "io.prometheus.write.v2.Request"

_Field = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "bytes": _Field.TYPE_BYTES,
    "string": _Field.TYPE_STRING,
    "double": _Field.TYPE_DOUBLE,
    "int64": _Field.TYPE_INT64,
    "uint32": _Field.TYPE_UINT32,
}

# Message: field: number, type; "*" for repeated ones, a capital for a message of this table.
_SHAPES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Sample": {"value": (1, "double"), "timestamp": (2, "int64")},
    "Label": {"name": (1, "string"), "value": (2, "string")},
    "Request1": {"timeseries": (1, "*bytes")},
    "Series1": {
        "labels": (1, "*bytes"),
        "samples": (2, "*Sample"),
        "exemplars": (3, "*bytes"),
        "histograms": (4, "*bytes"),
    },
    "Request2": {"symbols": (4, "*string"), "timeseries": (5, "*bytes")},
    "Series2": {
        "labels_refs": (1, "*uint32"),
        "samples": (2, "*Sample"),
        "histograms": (3, "*bytes"),
        "exemplars": (4, "*bytes"),
    },
}


@cache
def messages() -> Mapping[str, Any]:
    """Return the message classes by name: Sample, Label, Request1 and Series1, Request2 and Series2."""
    file = descriptor_pb2.FileDescriptorProto(name="gpuledger_remote_write.proto", package="gpuledger", syntax="proto3")
    for name, shape in _SHAPES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in shape.items():
            _declare(message.field.add(name=field, number=number), kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"gpuledger.{name}")) for name in _SHAPES}


def _declare(field: Any, kind: str) -> None:  # noqa: ANN401 - a FieldDescriptorProto
    field.label = _Field.LABEL_REPEATED if kind.startswith("*") else _Field.LABEL_OPTIONAL
    plain = kind.removeprefix("*")
    if plain in _KINDS:
        field.type = _KINDS[plain]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".gpuledger.{plain}"
