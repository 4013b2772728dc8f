"""The wire contract: message classes and calls, made from its descriptor set when the package is imported."""

import os

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "tessera.v1"


def _load():
    path = os.path.join(os.path.dirname(__file__), "wire.binpb")
    if not os.path.exists(path):
        raise ImportError(f"{path} is missing; './dev python' in Tessera's source tree writes it")
    with open(path, "rb") as file:
        files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return pool, files


def _class_of(descriptor):
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return _old_factory.GetPrototype(descriptor)  # protobuf before 4.22


_pool, _files = _load()
_old_factory = None if hasattr(message_factory, "GetMessageClass") else message_factory.MessageFactory(_pool)


def message(name):
    """The class of a message, as in message("LaunchRequest")."""
    return _class_of(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


class Service:
    """Calls of one service over a gRPC channel, by their names. Unary calls only."""

    def __init__(self, channel, name):
        for method in _pool.FindServiceByName(f"{_PACKAGE}.{name}").methods:
            answer = _class_of(method.output_type)
            _class_of(method.input_type)
            call = channel.unary_unary(
                f"/{_PACKAGE}.{name}/{method.name}",
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=answer.FromString,
            )
            setattr(self, method.name, call)
