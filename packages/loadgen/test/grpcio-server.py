"""A gRPC server of grpcio for tests: answers with the request's bytes, or with the error that the request names.

Prints its port, and serves until stdin is closed. A request "abort CODE MESSAGE" is answered with that status.
"""

import sys
from concurrent import futures

import grpc


def echo(request: bytes, context: grpc.ServicerContext) -> bytes:
    if request.startswith(b"abort "):
        _, code, message = request.decode().split(" ", 2)
        context.abort(grpc.StatusCode[code], message)
    return request


class Echo(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails):
        if details.method != "/test.Service/Echo":
            return None
        # Without serializers messages stay bytes.
        return grpc.unary_unary_rpc_method_handler(echo)


server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
server.add_generic_rpc_handlers((Echo(),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
server.stop(grace=5).wait()
