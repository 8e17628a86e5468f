"""A gRPC client by grpcio: calls `lab.v1.Lab` every way there is, and tells what came as one JSON document.

Usage: grpc_client.py DESCRIPTORS.binpb HOST:PORT
"""
import json
import sys
import threading
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

pool = descriptor_pool.DescriptorPool()
with open(sys.argv[1], "rb") as file:
    for described in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
        pool.Add(described)
Request, Reply = (message_factory.GetMessageClass(pool.FindMessageTypeByName(f"lab.v1.{name}")) for name in ("Request", "Reply"))
channel = grpc.insecure_channel(sys.argv[2])
write, read = Request.SerializeToString, Reply.FromString
get = channel.unary_unary("/lab.v1.Lab/Get", write, read)
listed = channel.unary_stream("/lab.v1.Lab/List", write, read)
collect = channel.stream_unary("/lab.v1.Lab/Collect", write, read)
chat = channel.stream_stream("/lab.v1.Lab/Chat", write, read)
nowhere = channel.unary_unary("/lab.v1.Nowhere/Get", write, read)
result = {}


def failure(call):
    try:
        call()
    except grpc.RpcError as error:
        trailing = {key: len(value) for key, value in error.trailing_metadata() or ()}
        return {"code": error.code().value[0], "message": error.details(), "details": trailing.get("grpc-status-details-bin", 0)}
    return None


reply, call = get.with_call(Request(user_id="ada", n=7), metadata=(("x-mine", "1"), ("x-bytes-bin", b"\x00\xff")), timeout=10)
result["unary"] = {
    "user_id": reply.got.user_id,
    "metadata": list(reply.metadata),
    "initial": dict(it for it in call.initial_metadata() if isinstance(it[1], str)).get("x-backend"),
}
result["listed"] = [it.got.answers for it in listed(Request(answers=3), timeout=10)]
result["collected"] = collect((Request(n=n) for n in range(100)), timeout=10).padding

# Each answer is awaited before the next question: nothing may be held back.
ready = threading.Semaphore(1)


def questions():
    for n in range(5):
        ready.acquire()
        yield Request(n=n)


answers = []
for it in chat(questions(), timeout=10):
    answers.append(it.got.n)
    ready.release()
result["chat"] = answers
result["large"] = len(get(Request(size=3 << 20), timeout=10).padding)
result["failed"] = failure(lambda: get(Request(fail=5), timeout=10))
result["late"] = failure(lambda: list(listed(Request(answers=2, fail=10), timeout=10)))
started = time.monotonic()
result["deadline"] = failure(lambda: get(Request(sleep_ms=5000), timeout=0.5))
result["deadline"]["took"] = time.monotonic() - started
result["nowhere"] = failure(lambda: nowhere(Request(), timeout=10))
print(json.dumps(result))
