"""The guards of conftest.py: a test that reaches for the world fails, one that stays here does not."""

from __future__ import annotations

import os
import socket

import pytest


@pytest.mark.parametrize("address", ["192.0.2.1", "example.org"])
def test_connections_elsewhere_fail_the_test(address: str) -> None:
    with pytest.raises(pytest.fail.Exception, match="reached for the network"):
        socket.create_connection((address, 80), timeout=1)
    with socket.socket() as client, pytest.raises(pytest.fail.Exception, match=address):
        client.connect((address, 80))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_connections_to_this_machine_work(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection((host, server.getsockname()[1]), timeout=5) as client:
            client.sendall(b"here")
        connection, _ = server.accept()
        with connection:
            assert connection.recv(4) == b"here"


def test_the_libraries_are_offline_and_find_no_token() -> None:
    from huggingface_hub import constants, get_token

    assert constants.HF_HUB_OFFLINE
    assert get_token() is None
    assert constants.HF_HOME.startswith(os.environ["HOME"])
