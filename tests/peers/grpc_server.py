"""A gRPC backend by grpcio: `lab.v1.Lab` with binary messages on one port and with JSON messages on another.

On the first it serves `crm.v1.Profiles` too, as the example in routes/grpc has it.

Usage: grpc_server.py DESCRIPTORS.binpb
Prints the two ports on one line, and serves until its standard input ends.
"""
import json
import sys
import threading
import time
from concurrent import futures

import grpc
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, json_format, message_factory

pool = descriptor_pool.DescriptorPool()
with open(sys.argv[1], "rb") as file:
    for described in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
        pool.Add(described)
Request, Reply, Reason = (
    message_factory.GetMessageClass(pool.FindMessageTypeByName(f"lab.v1.{name}")) for name in ("Request", "Reply", "Reason")
)


def fail(context, code, message):
    # google.rpc.Status by hand: its own package need not be there.
    reason = any_pb2.Any()
    reason.Pack(Reason(why=message, weight=9007199254740993))
    data = reason.SerializeToString()
    text = message.encode()
    status = b"\x08" + bytes([code]) + b"\x12" + bytes([len(text)]) + text + b"\x1a" + bytes([len(data)]) + data
    context.set_trailing_metadata((("grpc-status-details-bin", status),))
    context.abort(next(it for it in grpc.StatusCode if it.value[0] == code), message)


def metadata(context):
    return sorted(f"{it.key}={it.value}" for it in context.invocation_metadata() if isinstance(it.value, str))


class Proto:
    @staticmethod
    def read(data):
        return Request.FromString(data)

    @staticmethod
    def write(reply):
        return reply.SerializeToString()

    @staticmethod
    def field(request, name):
        return getattr(request, name)

    @staticmethod
    def reply(request, context, number):
        reply = Reply(got=request, padding="x" * request.size)
        if number == 0:
            reply.metadata.extend(metadata(context))
        return reply


class Json:
    @staticmethod
    def read(data):
        return json.loads(data)

    @staticmethod
    def write(reply):
        return json.dumps(reply, ensure_ascii=False, indent=1).encode()

    @staticmethod
    def field(request, name):
        return request.get(name, 0)

    @staticmethod
    def reply(request, context, number):
        return {"got": request, "metadata": metadata(context)} if number == 0 else {"got": request}


def methods(codec):
    def get(request, context):
        context.send_initial_metadata((("x-backend", "grpcio"),))
        time.sleep(codec.field(request, "sleep_ms") / 1000)
        if codec.field(request, "fail"):
            fail(context, codec.field(request, "fail"), "no 世界 %")
        return codec.reply(request, context, 0)

    def listed(request, context):
        for number in range(codec.field(request, "answers")):
            yield codec.reply(request, context, number)
            time.sleep(codec.field(request, "sleep_ms") / 1000)
        if codec.field(request, "fail"):
            fail(context, codec.field(request, "fail"), "late")

    def collected(requests, context):
        last, count = None, 0
        for last in requests:
            count += 1
        return Reply(got=last, padding=str(count))

    def chat(requests, context):
        for request in requests:
            yield Reply(got=request)

    unary = grpc.unary_unary_rpc_method_handler(get, codec.read, codec.write)
    stream = grpc.unary_stream_rpc_method_handler(listed, codec.read, codec.write)
    handlers = {"Get": unary, "List": stream}
    if codec is Proto:
        handlers["Collect"] = grpc.stream_unary_rpc_method_handler(collected, codec.read, codec.write)
        handlers["Chat"] = grpc.stream_stream_rpc_method_handler(chat, codec.read, codec.write)
    return grpc.method_handlers_generic_handler("lab.v1.Lab", handlers), unary, stream


def profiles():
    Get, Profile = (message_factory.GetMessageClass(pool.FindMessageTypeByName(f"crm.v1.{name}")) for name in ("GetProfile", "Profile"))

    def get(request, context):
        if request.account_id == "nobody":
            context.abort(grpc.StatusCode.NOT_FOUND, "no such account")
        tags = ["gold"] if request.with_tags else []
        return Profile(account_id=request.account_id, name="Ada", balance_cents=9007199254740993, tags=tags)

    def watch(request, context):
        yield get(request, context)
        yield get(request, context)

    read, write = Get.FromString, lambda it: it.SerializeToString()
    unary = grpc.unary_unary_rpc_method_handler(get, read, write)
    stream = grpc.unary_stream_rpc_method_handler(watch, read, write)
    return grpc.method_handlers_generic_handler("crm.v1.Profiles", {"Get": unary, "Watch": stream})


servers, ports = [], []
for codec in (Proto, Json):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=64), options=(("grpc.so_reuseport", 0),))
    lab, unary, stream = methods(codec)
    # Bytes as they are: a google.api.HttpBody is read and written by the gateway.
    echo = grpc.unary_unary_rpc_method_handler(lambda request, context: request, None, None)
    rules = grpc.method_handlers_generic_handler("lab.v1.Rules", {"Get": unary, "List": stream, "Echo": echo})
    server.add_generic_rpc_handlers((lab, rules, profiles()) if codec is Proto else (lab,))
    ports.append(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    servers.append(server)
print(*ports, flush=True)
sys.stdin.read()
for server in servers:
    server.stop(None)
