"""The transport against servers that misbehave."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuemu import ClientError, ConnectionFailed, _shared
from gpuemu._fuzzing import fetch
from gpuemu._http import Transport
from gpuemu._shared import Reserve, SharedFile

Answer = Callable[[socket.socket], None]
PATIENCE = 60  # seconds that a busy machine may take for anything; nothing waits for them to pass


@contextlib.contextmanager
def serving(path: Path, *answers: Answer) -> Iterator[str]:
    """A server that gives one answer per connection."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        for answer in answers:
            connection, _ = listener.accept()
            with connection:
                answer(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield str(path)
    listener.close()


def says(text: bytes) -> Answer:
    def answer(connection: socket.socket) -> None:
        with connection.makefile("rb") as request:
            length = 0
            while (line := request.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            request.read(length)
        connection.sendall(text)

    return answer


def ok(body: bytes, claimed: int | None = None) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(body) if claimed is None else claimed) + body


def test_kept_connection_that_was_closed_is_replaced(tmp_path: Path) -> None:
    closed = threading.Event()

    def once(connection: socket.socket) -> None:
        says(ok(b"1"))(connection)
        connection.close()
        closed.set()

    with serving(tmp_path / "s", once, says(ok(b"2"))) as path:
        transport = Transport(path, PATIENCE)
        assert transport.json("GET", "/v1/ping") == 1
        assert closed.wait(PATIENCE)
        assert transport.json("GET", "/v1/ping") == 2


def test_answer_that_is_cut_off(tmp_path: Path) -> None:
    with serving(tmp_path / "s", says(ok(b"[1,", 100))) as path, pytest.raises(ConnectionFailed, match="went away"):
        Transport(path, PATIENCE).json("GET", "/v1/ping")


def test_connection_that_is_closed_at_once(tmp_path: Path) -> None:
    with serving(tmp_path / "s", lambda c: None) as path, pytest.raises(ConnectionFailed, match="went away"):
        Transport(path, PATIENCE).json("GET", "/v1/ping")


def test_silence_is_an_error_after_the_timeout(tmp_path: Path) -> None:
    given_up = threading.Event()

    def silent(_connection: socket.socket) -> None:
        given_up.wait(PATIENCE)

    with serving(tmp_path / "s", silent) as path:
        with pytest.raises(ConnectionFailed, match=r"did not answer within 0\.2 s"):
            Transport(path, 0.2).json("GET", "/v1/ping")
        given_up.set()


def test_what_is_not_http(tmp_path: Path) -> None:
    with serving(tmp_path / "s", says(b"220 mail ready\r\n")) as path, pytest.raises(ConnectionFailed):
        Transport(path, PATIENCE).json("GET", "/v1/ping")


def test_error_of_the_engine(tmp_path: Path) -> None:
    body = b'{"code":"a-b","message":"no such op","hint":"use relu","pos":"f.toml:3:1"}'
    text = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with serving(tmp_path / "s", says(text)) as path, pytest.raises(ClientError) as caught:
        Transport(path, PATIENCE).json("GET", "/v1/ping")
    assert str(caught.value) == "f.toml:3:1: no such op\n  use relu [a-b]"
    assert (caught.value.code, caught.value.hint, caught.value.position) == ("a-b", "use relu", "f.toml:3:1")


def test_error_before_the_request_was_read(tmp_path: Path) -> None:
    """A daemon that finds a body too large does not wait for its end."""
    body = b'{"code":"a-b","message":"too large","hint":"send less"}'

    def refuses(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    with serving(tmp_path / "s", refuses) as path, pytest.raises(ClientError) as caught:
        Transport(path, PATIENCE).request("POST", "/v1/x", bytes(1 << 24))
    assert (caught.value.code, caught.value.message, caught.value.hint) == ("a-b", "too large", "send less")


def test_error_that_is_no_json(tmp_path: Path) -> None:
    text = b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\n<ht>"
    with serving(tmp_path / "s", says(text)) as path, pytest.raises(ClientError, match="status 500"):
        Transport(path, PATIENCE).json("GET", "/v1/ping")


@pytest.mark.parametrize("body", [b"", b'{"forms": [', b"\xff"])
def test_batch_that_is_cut_off(tmp_path: Path, body: bytes) -> None:
    with serving(tmp_path / "s", says(ok(body))) as path, SharedFile() as shared, pytest.raises(ConnectionFailed):
        fetch(Transport(path, PATIENCE), {"op": "relu"}, shared)


def test_batch_that_ends_with_an_error(tmp_path: Path) -> None:
    """The cases before it are of no use then: the error says why there are no more."""
    body = b'{"forms": [], "form": [], "error": {"code": "a-b", "message": "no room", "hint": "make some"}}'
    with serving(tmp_path / "s", says(ok(body))) as path, SharedFile() as shared, pytest.raises(ClientError) as caught:
        fetch(Transport(path, PATIENCE), {"op": "relu"}, shared)
    assert (caught.value.code, caught.value.message, caught.value.hint) == ("a-b", "no room", "make some")


def test_shared_file_is_private_and_goes_away() -> None:
    shared = SharedFile()
    path = Path(shared.path)
    assert path.stat().st_mode & 0o777 == 0o600
    small = shared.view(10)
    small[:] = 7
    large = shared.view(5 << 20)
    assert large[9] == 7 and large[10] == 0
    small[0] = 9
    assert large[0] == 9  # a view from before the growth is of the same memory
    shared.close()
    shared.close()
    assert not path.exists()
    assert large[0] == 9


def test_shared_file_survives_a_fork() -> None:
    with SharedFile() as shared:
        child = os.fork()
        if child == 0:
            shared.close()  # as the end of an interpreter does
            os._exit(0)
        os.waitpid(child, 0)
        assert os.path.exists(shared.path)


def test_files_of_a_reserve_are_used_again() -> None:
    reserve = Reserve()
    with reserve.file() as first, reserve.file() as second:
        assert first.path != second.path
        first.view(10)[:] = 7
        paths = {first.path, second.path}
    with reserve.file() as again, reserve.file() as too:
        assert {again.path, too.path} == paths
    with pytest.raises(ZeroDivisionError), reserve.file() as broken:
        raise ZeroDivisionError  # whoever has the other side may still write to it
    assert not os.path.exists(broken.path)
    with reserve.file() as large:
        assert large.path in paths
        large.view(_shared.KEPT_BYTES + 1)
    assert not os.path.exists(large.path)
    with reserve.file() as other:
        pass
    os.unlink(other.path)
    with reserve.file() as fresh:
        assert fresh.path != other.path
    reserve.close()
    assert not os.path.exists(fresh.path)


def test_a_reserve_keeps_few_files() -> None:
    reserve = Reserve()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(reserve.file()) for _ in range(_shared.KEPT + 2)]
    assert sum(os.path.exists(f.path) for f in files) == _shared.KEPT
    reserve.close()
    assert not any(os.path.exists(f.path) for f in files)


def test_a_reserve_after_a_fork() -> None:
    reserve = Reserve()
    with reserve.file() as shared:
        pass
    child = os.fork()
    if child == 0:
        with reserve.file() as own:
            os._exit(0 if own.path != shared.path else 1)
    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 0
    assert os.path.exists(shared.path)
    reserve.close()


def test_shared_file_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with SharedFile() as shared, pytest.raises(ClientError, match="cannot have 1048576 bytes: No space left") as caught:
        shared.view(10)
    assert "--shm-size" in caught.value.hint


def test_shared_files_are_not_made_where_there_is_little_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_shared, "ROOM", 1 << 62)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with SharedFile() as shared:
        assert os.path.dirname(shared.path) == str(tmp_path)


AT_EXIT = """
from gpuemu import _shared
class Owner: pass
owner = Owner()
owner.itself, owner.kept = owner, _shared.Reserve()
file = owner.kept.take()
print(file.path)
owner.kept.give(file)
"""


def test_files_of_a_reserve_go_with_the_interpreter() -> None:
    """Also where their client was never closed and is part of a cycle."""
    done = subprocess.run([sys.executable, "-c", AT_EXIT], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    assert done.stdout and not os.path.exists(done.stdout.strip())


LEFT = """
import os, sys
from gpuemu import _shared
_shared.tempfile.tempdir, _shared.ROOM = sys.argv[1], 1 << 62
print(_shared.SharedFile().path, flush=True) if sys.argv[2] == "crash" else None
kept = _shared.SharedFile()
print(kept.path, flush=True)
sys.stdin.read(1) if sys.argv[2] == "wait" else None
os._exit(1)
"""


def test_files_of_a_process_that_crashed_are_removed_by_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", LEFT, str(tmp_path)]
    left = subprocess.run([*command, "crash"], stdout=subprocess.PIPE, text=True, timeout=60).stdout.split()[-1]
    with subprocess.Popen([*command, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as alive:
        assert alive.stdout is not None
        used = alive.stdout.readline().strip()
        other = tmp_path / "gpuemu-notes"
        other.write_text("mine")
        young = tmp_path / (_shared.PREFIX + "young")
        young.touch(0o600)
        for path in (left, used, other):
            os.utime(path, (1, 1))
        monkeypatch.setattr(_shared, "ROOM", 1 << 62)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        with SharedFile():
            assert not os.path.exists(left)
            assert os.path.exists(used) and other.exists() and young.exists()
        alive.communicate("x", timeout=60)


def test_connections_of_threads_that_ended_are_closed(tmp_path: Path) -> None:
    ended = threading.Event()

    def until_closed(connection: socket.socket) -> None:
        says(ok(b"1"))(connection)
        assert connection.recv(1) == b""
        ended.set()

    with serving(tmp_path / "s", until_closed, says(ok(b"2"))) as path:
        transport = Transport(path, PATIENCE)
        thread = threading.Thread(target=transport.json, args=("GET", "/v1/ping"))
        thread.start()
        thread.join()
        assert not ended.is_set()
        assert transport.json("GET", "/v1/ping") == 2  # the server accepts it when the first is closed
        assert ended.wait(PATIENCE)


def test_an_answer_that_is_given_up_takes_no_other_connection_with_it(tmp_path: Path) -> None:
    def twice(connection: socket.socket) -> None:
        says(ok(b"1"))(connection)
        says(ok(b"2"))(connection)

    with serving(tmp_path / "s", says(ok(b"[1,", 100))) as path, serving(tmp_path / "t", twice) as other:
        transport = Transport(other, PATIENCE)
        assert transport.json("GET", "/v1/ping") == 1
        transport.path = path
        with ThreadPoolExecutor(1) as pool, pytest.raises(ConnectionFailed):
            pool.submit(transport.json, "GET", "/v1/ping").result()
        assert transport.json("GET", "/v1/ping") == 2
