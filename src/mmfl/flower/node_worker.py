"""Answers the messages of one SuperNode, in one process that stays.

flower-supernode --isolation process ...; then this, with the address of the SuperNode's Runtime API

Flower's own SuperExec starts a new process for every message, which imports torch, loads the data
and builds the networks again. It also runs the code that the server sent. This process does what a
SuperExec and its ClientApp do together, but only ever runs the mmfl that is installed here.
"""

from __future__ import annotations

import argparse
import logging
import threading
import time
from pathlib import Path

from flwr.app import Error, Message
from flwr.common.constant import SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from mmfl.flower.client_app import NodeApp
from mmfl.system.user_code import pass_on

__all__ = ["NodeWorker", "main"]

_OFTEN = 0.05
"""Seconds between two looks for a message that the SuperNode has received."""

_log = logging.getLogger("flwr")


class NodeWorker:
    """Does the tasks of one SuperNode.

    Args:
        address: Of the SuperNode's Runtime API.
        certificates: To check its certificate with; None = without TLS.
    """

    def __init__(self, address: str, certificates: bytes | None) -> None:
        self._address, self._certificates = address, certificates
        self._app = NodeApp()
        self._turn = threading.Lock()
        self._client = self._connect("SuperExec")

    def serve(self) -> None:
        """Do the tasks as they come, for ever; only one at a time trains.

        Each has a thread: Flower waits minutes for a message whose run has been stopped.
        """
        request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
        while True:
            try:
                found = self._client.AcquireTask(request)
                if found.HasField("task") and found.token:
                    threading.Thread(target=self._do, args=(found.token,), daemon=True).start()
            except Exception as error:  # the SuperNode is not there yet, or not any more
                pass_on(error)
                _log.warning("no task: %s: %s", type(error).__name__, error)
                time.sleep(1)
            time.sleep(_OFTEN)

    def _do(self, token: str) -> None:
        try:
            self._do_task(token)
        except Exception as error:
            pass_on(error)
            _log.warning("a task failed: %s: %s", type(error).__name__, error)

    def _do_task(self, token: str) -> None:
        client = self._connect("flwr-clientapp", RuntimeTokenHttpInterceptor(token))
        beat = HeartbeatSender(lambda: _beat(client))
        beat.start()
        status, why, context = SubStatus.FAILED, "the message could not be answered", None
        try:
            message, context, _, _ = pull_task_input(client)
            try:
                with self._turn:
                    reply = self._app(message, context)
                push_message(client, reply, context)
            except Exception as error:  # a SuperNode waits for ever for a reply
                pass_on(error)
                said = f"{type(error).__name__}: {error}"
                push_message(client, Message(Error(2, said), reply_to=message), context)
                raise
            status, why = SubStatus.COMPLETED, ""
        finally:
            push_task_output(client, context, status, why)
            beat.stop()
            client.close()

    def _connect(self, name: str, *more: ProtobufClientInterceptor) -> RuntimeHttpClient:
        return RuntimeHttpClient.from_server_address(
            server_address=self._address,
            insecure=self._certificates is None,
            root_certificates=self._certificates,
            interceptors=[RuntimeVersionHttpInterceptor(component_name=name), *more],
            retry_invoker=make_simple_http_retry_invoker(),
        )


def _beat(client: RuntimeHttpClient) -> bool:
    """Tell the SuperNode that its task is being done, if it can be told."""
    try:
        client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
    except Exception as error:
        pass_on(error)
    return True


def main() -> None:
    """Serve the SuperNode that the arguments name."""
    given = _parse_command()
    import mmfl.train  # noqa: F401  (so that the first message need not wait for torch)

    certificates = given.root_certificates and given.root_certificates.read_bytes()
    NodeWorker(given.runtime_api_address, certificates).serve()


def _parse_command() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mmfl-node-worker", description=__doc__)
    parser.add_argument("--runtime-api-address", required=True)
    parser.add_argument("--root-certificates", type=Path)
    return parser.parse_args()
