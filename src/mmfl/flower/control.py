"""What `flwr supernode register`, `flwr run` and `flwr list` do, without a process for each."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from mmfl.errors import EngineError, one_line
from mmfl.system.user_code import pass_on

__all__ = ["Control"]


class Control:
    """The Control API of a SuperLink.

    Args:
        address: Its host and port.
        certificates: The authority's certificate; None = without TLS.
        home: FLWR_HOME while it is used.
    """

    def __init__(self, address: str, certificates: Path | None, home: Path) -> None:
        self._address, self._certificates, self._home = address, certificates, home

    def register(self, public_key: Path) -> int:
        """Let a node in that has this key; returns its id."""
        from flwr.cli.supernode.register import try_load_public_key
        from flwr.proto.control_pb2 import RegisterNodeRequest

        with self._client("registering a node") as client:
            key = try_load_public_key(public_key)
            return int(client.RegisterNode(request=RegisterNodeRequest(public_key=key)).node_id)

    def start_run(self, app: Path, config: Mapping[str, Any]) -> int:
        """Start an app with a run configuration; returns the run's id."""
        from flwr.cli.build import build_fab_from_disk
        from flwr.common.serde import fab_to_proto, user_config_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        with self._client("starting the run") as client:
            content = build_fab_from_disk(app)
            fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
            request = StartRunRequest(
                fab=fab_to_proto(fab), override_config=user_config_to_proto(dict(config))
            )
            return int(client.StartRun(request).run_id)

    def stop_run(self, run: int) -> None:
        """End a run that a ServerApp has left."""
        from flwr.proto.control_pb2 import StopRunRequest

        with self._client("stopping the run") as client:
            client.StopRun(StopRunRequest(run_id=run))

    def status(self, run: int) -> tuple[str, str]:
        """Status and details of a run, such as ("finished:failed", "...")."""
        from flwr.proto.control_pb2 import ListRunsRequest

        with self._client("asking for the run's status") as client:
            found = client.ListRuns(ListRunsRequest(run_id=run)).run_dict[run].status
            whole = f"{found.status}:{found.sub_status}" if found.sub_status else found.status
            return whole, found.details

    @contextmanager
    def _client(self, what: str) -> Iterator[Any]:
        from flwr.cli.typing import SuperLinkConnection
        from flwr.cli.utils import init_http_client_from_connection

        before = os.environ.get("FLWR_HOME")
        os.environ["FLWR_HOME"] = str(self._home)
        connection = SuperLinkConnection(
            name="mmfl",
            address=self._address,
            root_certificates=None if self._certificates is None else str(self._certificates),
            insecure=self._certificates is None,
        )
        client = None
        try:
            with redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # Flower's own
                client = init_http_client_from_connection(connection)
                yield client
        except (Exception, SystemExit) as error:
            if isinstance(error, Exception):
                pass_on(error)
            raise EngineError(f"{what} failed: {one_line(error)}") from None
        finally:
            if client is not None:
                client.close()
            if before is None:
                del os.environ["FLWR_HOME"]
            else:
                os.environ["FLWR_HOME"] = before
