"""The Python side of gpuemu: a worker that calls one function, and a fork server that runs one-shot scripts.

Started by gpuemu from a private file, as `python worker.py call` or `python worker.py serve`. It needs Python 3.9 and
numpy; bfloat16 and float8 arrays need ml_dtypes. working.py and _exceptions.py of the client stand in the same file,
before this. Nothing of gpuemu is importable from user code, and nothing of the user's is imported before gpuemu says
so. The protocols are docs/formats/worker-v1.md and script-v1.md.
"""
import sys

# Python puts the directory of this file first on the path: it is private, and user code must not see it.
if sys.path and __file__.rpartition("/")[0] == sys.path[0]:
    sys.path.pop(0)

import base64  # noqa: F401 - scripts use it: loaded once, before the first fork
import json
import os
import struct
import time
import traceback

VERSION = 1
REQUESTS, REPLIES, INPUT_IMAGE, OUTPUT_IMAGE = 3, 4, 5, 6
SOCKET = 3  # of the fork server
MAX_TRACE = 16 << 10  # characters of a traceback that are sent: the end tells most
KEPT_MEMORY = 16 << 20  # bytes; half of what is kept between calls
COMPARE_BLOCK = 1 << 15  # words compared at once: 256 KiB of each side fit into a second-level cache

WORKING_REFUSED = 119  # exit status of a script that does not compute with arrays it read from bytes

np = None  # numpy, once it is imported


class Refusal(Exception):
    """A reply that is not an output: reason is one of docs/formats/worker-v1.md."""

    def __init__(self, reason, message, hint="", trace=""):
        super().__init__(message)
        self.header = {"ok": False, "reason": reason, "message": message, "hint": hint, "trace": trace}


def trace_of(exc, own_frames):
    """The traceback without the frames of this file, which are the outermost ones."""
    tb = exc.__traceback__
    for _ in range(own_frames):
        tb = tb.tb_next if tb is not None else None
    try:
        return "".join(traceback.format_exception(type(exc), exc, tb))[-MAX_TRACE:]
    except Exception:  # a __str__ or __repr__ of the user's that raises
        return ""


def refusal_of(exc, what, own_frames):
    """What an exception in user code means for the case."""
    trace = trace_of(exc, own_frames)
    if isinstance(exc, ModuleNotFoundError) and exc.name:
        message, step = missing_package(what, exc)
        return Refusal("missing_package", message, step + ", or choose another interpreter with the key python", trace)
    if isinstance(exc, MemoryError):
        return Refusal("memory_limit", "%s ran out of memory: %s" % (what, describe(exc)), "", trace)
    if isinstance(exc, SystemExit):
        return Refusal("raised", "%s called sys.exit(%r)" % (what, exc.code), "", trace)
    return Refusal("raised", "%s raised %s" % (what, describe(exc)), "", trace)


def import_numpy():
    """Imports numpy; a Refusal says what to do where that is not possible."""
    global np
    try:
        import numpy
    except ModuleNotFoundError as exc:
        raise Refusal(
            "missing_package",
            "%s has no numpy (%s)" % (sys.executable, exc),
            "%s -m pip install numpy, or choose another interpreter with the key python" % sys.executable,
        )
    except BaseException as exc:
        raise Refusal("not_started", "numpy cannot be imported: %s" % describe(exc), "", trace_of(exc, 1))
    np = numpy


def compiled(path):
    """The code of the user's file; a Refusal where it does not compile.

    Not through Python's loader: cached bytecode is found by a time in seconds, and a file may be edited faster.
    """
    try:
        with open(path, "rb") as f:
            return compile(f.read(), path, "exec", dont_inherit=True)
    except BaseException as exc:
        raise refusal_of(exc, "importing " + os.path.basename(path), 1)


# ---- worker ----------------------------------------------------------------------------------------------------

# dtype name: (its name in a safetensors header, numpy's name, or None where ml_dtypes has it)
FORMATS = {
    "float64": ("F64", "<f8"), "float32": ("F32", "<f4"), "float16": ("F16", "<f2"),
    "bfloat16": ("BF16", None), "float8_e4m3fn": ("F8_E4M3", None), "float8_e5m2": ("F8_E5M2", None),
    "int8": ("I8", "i1"), "int16": ("I16", "<i2"), "int32": ("I32", "<i4"), "int64": ("I64", "<i8"),
    "uint8": ("U8", "u1"), "uint16": ("U16", "<u2"), "uint32": ("U32", "<u4"), "uint64": ("U64", "<u8"),
    "bool": ("BOOL", "?"),
}  # fmt: skip


class Worker:
    """Serves requests on the four inherited files until the first one ends."""

    def __init__(self):
        self.function = None
        self.takes = None  # names of attributes the function takes; None: all of them
        self.name = ""
        self.dtypes = {}  # dtype name: numpy dtype
        self.names = {}  # numpy dtype: dtype name, or None; dtype.name takes microseconds
        self.image = None  # the input image, mapped for reading
        self.form = self.head = None  # names, dtypes and shapes of the last outputs, and the header of their image
        self.id = 0  # of the request that is served
        self.unlaunched = None  # the Refusal of the first launch of a call that could not be sent
        self.pid = os.getpid()

    def run(self):
        for fd in (REQUESTS, REPLIES, INPUT_IMAGE, OUTPUT_IMAGE):
            os.set_inheritable(fd, False)
        try:
            import faulthandler

            faulthandler.enable()
        except Exception:
            pass  # a better message for a crash, no more
        # The C library of Linux keeps freed memory up to twice the size of the largest block it has unmapped. Without
        # this line the arrays of each call would get their pages from the kernel anew, which takes longer than a softmax.
        bytearray(KEPT_MEMORY)
        while True:
            request = receive()
            if request is None:
                return
            self.id = request["id"]
            try:
                if request["type"] == "load":
                    header = self.load(request)
                elif request["type"] == "call":
                    header = self.call(request)
                else:
                    header = Refusal("unsupported", "unknown request type %r" % request["type"]).header
            except Refusal as refusal:
                header = refusal.header
            if os.getpid() != self.pid:
                os._exit(0)  # a child that the user's code forked and let return: only its parent replies
            header["id"] = request["id"]
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    pass  # the user's code may have replaced or closed it
            send(header)

    def load(self, request):
        path, function = request["file"], request["function"]
        code = compiled(path)  # before all packages: a broken file is the user's error, also where one is missing
        import_numpy()
        if request.get("emulate"):
            emulate(self, request["emulate"], os.path.basename(path) + ":" + function)
        self.load_function(path, code, function)
        return {"ok": True, "version": VERSION}

    def load_function(self, path, code, function):
        import importlib.util
        import inspect

        stem = os.path.basename(path)[: -len(".py")]
        self.name = os.path.basename(path) + ":" + function
        # A file named like a module that is loaded (json.py) must not replace it.
        name = stem if stem.isidentifier() and stem not in sys.modules else "gpuemu_candidate_" + stem
        sys.path.insert(0, os.path.dirname(path))
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            exec(code, module.__dict__)
        except BaseException as exc:
            raise refusal_of(exc, "importing " + os.path.basename(path), 1)
        target = module
        for part in function.split("."):
            target = getattr(target, part, None)
        if not callable(target):
            names = [k for k, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == name]
            raise Refusal(
                "not_started",
                "%s has no function %s" % (path, function),
                "it has " + ", ".join(sorted(names)) if names else "",
            )
        self.function = target
        self.takes = set()
        try:
            parameters = list(inspect.signature(target).parameters.values())
        except (TypeError, ValueError):
            return  # a function written in C that does not say
        for p in parameters[1:]:
            if p.kind == p.VAR_KEYWORD:
                self.takes = None
                return
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
                self.takes.add(p.name)

    def call(self, request):
        inputs, storages = {}, []
        for t in request["inputs"]:
            array, storage = self.read_input(t)
            inputs[t["name"]] = array
            storages.append((t, storage))
        if not request["reference"]:
            for o in request["outputs"]:
                self.dtype(o["dtype"])
        attrs = request["attrs"]
        if self.takes is not None:
            attrs = {k: v for k, v in attrs.items() if k in self.takes}
        self.unlaunched = None
        start = time.perf_counter_ns()
        try:
            if request.get("working"):
                result = self.call_working(request["working"], inputs, attrs)
            else:
                result = self.function(inputs, **attrs)
            if self.unlaunched is not None:  # what it returned all the same is not the kernel's
                raise self.unlaunched
        except BaseException as exc:
            spent = time.perf_counter_ns() - start
            refusal = exc if isinstance(exc, Refusal) else refusal_of(exc, self.name, 1)
            refusal = self.unlaunched or refusal
            refusal.header["time_ns"] = spent
            raise refusal
        spent = time.perf_counter_ns() - start
        modified = [t["name"] for t, storage in storages if self.differs(storage, t["bytes"][0])]
        size = self.write_outputs(self.named(result, request["outputs"]), request["max_image"])
        return {"ok": True, "image": size, "time_ns": spent, "modified": modified}

    def call_working(self, working, inputs, attrs):
        """The function in the working precision, with random rounding."""
        with WorkingPrecision(np, self.dtype(working["widest"]), int(working["seed"])) as precision:  # noqa: F821
            result = self.function({k: precision.entered(x) for k, x in inputs.items()}, **attrs)
        if precision.operations() == 0:
            raise Refusal("unsupported", "%s does not compute with numpy's operations on its inputs" % self.name)
        return result

    def dtype(self, name):
        """The numpy dtype of a tensor dtype."""
        dt = self.dtypes.get(name)
        if dt is None:
            if name not in FORMATS:
                raise Refusal("unsupported", "unknown dtype %s" % name)
            code = FORMATS[name][1]
            if code is not None:
                dt = np.dtype(code)
            else:
                try:
                    import ml_dtypes
                except ImportError as exc:
                    raise Refusal(
                        "missing_package",
                        "%s arrays need ml_dtypes, which %s does not have (%s)" % (name, sys.executable, exc),
                        "pip install ml_dtypes for this interpreter, or set raw = true to get unsigned integers",
                    )
                dt = np.dtype(getattr(ml_dtypes, name))
            self.dtypes[name] = dt
        return dt

    def read_input(self, t):
        """A fresh array with the strides and the offset of the input, and the storage it is a view of."""
        dt = self.dtype(t["dtype"])
        begin, end = t["bytes"]
        storage = np.empty(end - begin, np.uint8)
        if end == begin:
            return np.empty(t["shape"], dt), storage
        at = 0
        while at < end - begin:
            n = os.preadv(INPUT_IMAGE, [memoryview(storage)[at:]], begin + at)
            if n <= 0:
                raise Refusal("not_started", "the input image ends at byte %d, want %d" % (begin + at, end))
            at += n
        size = dt.itemsize
        return np.ndarray(t["shape"], dt, storage, t["offset"] * size, [s * size for s in t["strides"]]), storage

    def differs(self, storage, begin):
        """Whether the user's code wrote to an input: its storage is compared with the image it was copied from."""
        end = begin + storage.size
        if self.image is None or self.image.size < end:
            import mmap

            self.image = np.frombuffer(mmap.mmap(INPUT_IMAGE, 0, access=mmap.ACCESS_READ), np.uint8)
        image = self.image[begin:end]
        words = storage.size & ~7  # eight bytes at a time, and the rest
        if words < storage.size and (storage[words:] != image[words:]).any():
            return True
        got, want = storage[:words].view(np.uint64), image[:words].view(np.uint64)
        for at in range(0, got.size, COMPARE_BLOCK):
            if not (got[at : at + COMPARE_BLOCK] == want[at : at + COMPARE_BLOCK]).all():
                return True
        return False

    def named(self, result, outputs):
        """The outputs by name, in order."""
        names = [o["name"] for o in outputs]
        if isinstance(result, dict):
            return [(str(k), self.array(str(k), v)) for k, v in result.items()]
        if isinstance(result, list) and any(hasattr(v, "__array__") for v in result):
            result = tuple(result)
        if not isinstance(result, tuple):
            if len(names) > 1:
                raise Refusal(
                    "wrong_outputs",
                    "%s returned one %s, want %d outputs" % (self.name, type(result).__name__, len(names)),
                    "return a dict or a tuple of " + ", ".join(names),
                )
            return [("output", self.array("output", result))]
        if not names:
            names = ["output"] if len(result) == 1 else ["output%d" % i for i in range(len(result))]
        if len(result) != len(names):
            raise Refusal(
                "wrong_outputs",
                "%s returned a tuple of %d, want %d outputs" % (self.name, len(result), len(names)),
                "return " + ", ".join(names),
            )
        return [(name, self.array(name, v)) for name, v in zip(names, result)]

    def array(self, name, value):
        """A C-contiguous little-endian array of one of our formats."""
        if value is None:
            raise Refusal("bad_reply", "%s returned None as %s" % (self.name, name), "return a numpy array")
        try:
            if hasattr(value, "detach"):  # torch
                value = value.detach().cpu()
            array = np.asarray(value)
            if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
                array = array.astype(array.dtype.newbyteorder("<"))
            if self.name_of(array.dtype) is not None:
                return array if array.flags.c_contiguous else array.copy(order="C")
        except BaseException as exc:
            raise Refusal(
                "bad_reply",
                "%s returned a %s as %s, which is no array: %s"
                % (self.name, type(value).__name__, name, describe(exc)),
                "return a numpy array",
                trace_of(exc, 1),
            )
        reason, what = ("wrong_dtype", array.dtype.name) if array.dtype.kind in "fciu" else ("bad_reply", "no number")
        raise Refusal(reason, "%s returned %s of type %s (%s)" % (self.name, name, type(value).__name__, what),
                      "return a numpy array of " + ", ".join(FORMATS))  # fmt: skip

    def name_of(self, dt):
        """The name of a numpy dtype among our formats, or None."""
        if dt not in self.names:
            self.names[dt] = dt.name if dt.name in FORMATS else None
        return self.names[dt]

    def write_outputs(self, outputs, limit):
        """Writes the outputs as a safetensors image and returns its length."""
        form = [(name, a.dtype, a.shape) for name, a in outputs]
        if form != self.form:
            self.form, self.head = form, self.image_header(outputs)
        size = len(self.head) + sum(a.nbytes for _, a in outputs)
        if size > limit:
            raise Refusal("output_limit", "the outputs have %d bytes, the limit is %d" % (size, limit))
        parts = [self.head]
        parts += [a.reshape(-1).view(np.uint8) for _, a in outputs if a.nbytes]
        if os.pwritev(OUTPUT_IMAGE, parts[:16], 0) != size:  # as good as always the whole; at most 16 parts everywhere
            at = 0
            for part in parts:
                at = pwrite(part, at)
        return size

    def image_header(self, outputs):
        """The beginning of an image, which mostly is that of the call before."""
        header, at = {}, 0
        for name, a in outputs:
            if name in header or name == "__metadata__":
                raise Refusal("wrong_outputs", "%s returned two outputs of the name %s" % (self.name, name))
            kind, end = FORMATS[self.name_of(a.dtype)][0], at + a.nbytes
            header[name] = {"dtype": kind, "shape": a.shape, "data_offsets": (at, end)}
            at = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text


def emulate(worker, library, who):
    """Has the launches of Triton kernels executed by gpuemu, from now on and for good.

    library is the directory of the client, whose emulated_triton it is. Triton is imported before the user's file, which
    may ask it for its device.
    """
    sys.path.insert(0, library)
    try:
        import triton  # noqa: F401
    except BaseException as exc:
        raise refusal_of(exc, who, 1)
    from gpuemu import ClientError, emulated_triton

    class Noting(emulated_triton):
        """Notes a launch that cannot be sent. The user's code may catch the exception; nothing ran all the same."""

        def launch(self, kernel, grid, args):
            try:
                super().launch(kernel, grid, args)
            except Exception as exc:
                if worker.unlaunched is None:
                    worker.unlaunched = refusal_of(exc, "a launch of " + who, 1)
                    if isinstance(exc, ClientError):
                        worker.unlaunched.header.update(reason="unsupported", message=exc.message, hint=exc.hint)
                raise

    Noting(client=Launches(worker), findings="collect").__enter__()


class Launches:
    """Sends launches to gpuemu, within the request that is served: what a client of the daemon is to emulated_triton."""

    def __init__(self, worker):
        self.worker = worker

    def _launched(self, header, tensors):
        """The answer to a launch, and the tensors that the kernel wrote."""
        import contextlib

        from gpuemu import ClientError, _parts

        head, size = _parts.image_head(tensors)
        at = pwrite(head, 0)
        for array in tensors.values():
            at = pwrite(_parts.flat_bytes(array), at)
        send({"id": self.worker.id, "launch": header, "image": at})
        answer = receive()
        if answer is None:
            os._exit(0)  # gpuemu is gone
        if "emulation" not in answer:
            raise ClientError(answer["message"], answer.get("code", ""), answer.get("hint", ""))
        image = os.pread(OUTPUT_IMAGE, answer["image"], 0)
        return contextlib.nullcontext((answer, _parts.parse_image(memoryview(image)) if image else {}))


def pwrite(data, at):
    """Writes all of data to the output image and returns where it ends."""
    view = memoryview(data)
    while view:
        n = os.pwrite(OUTPUT_IMAGE, view, at)
        view, at = view[n:], at + n
    return at


def receive():
    """The next request, or None at the end."""
    data = b""
    want = 4
    while len(data) < want:
        part = os.read(REQUESTS, 1 << 16)
        if not part:
            return None
        data += part
        if want == 4 and len(data) >= 4:
            want = 4 + struct.unpack_from("<I", data)[0]
    return json.loads(data[4:])


def send(header):
    text = json.dumps(header).encode("ascii")
    data = memoryview(struct.pack("<I", len(text)) + text)
    while data:
        data = data[os.write(REPLIES, data) :]


# ---- fork server -----------------------------------------------------------------------------------------------


class Server:
    """Runs scripts in forked children that have numpy loaded, one after the other.

    A child that has ended stays a zombie until the next request: its pid, which is also its process group, cannot be
    reused while gpuemu may still send it a signal.
    """

    def __init__(self):
        import select
        import signal
        import socket
        import threading  # noqa: F401 - loaded before the first fork
        import types

        self.select, self.signal, self.socket, self.types = select, signal, socket, types
        self.sock = socket.socket(fileno=SOCKET)
        self.sock.set_inheritable(False)
        self.wake, self.waker = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(self.waker, False)
        self.codes = {}  # script: (mtime, size, code)
        self.zombie = None

    def run(self):
        try:
            import_numpy()
            self.reply({"ok": True, "version": VERSION})
        except Refusal as refusal:
            self.reply(refusal.header)
            return
        import gc

        gc.collect()
        gc.freeze()  # what is loaded now is never collected: children need not copy its pages
        self.signal.signal(self.signal.SIGCHLD, lambda *_: None)
        self.signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        while True:
            request, fds = self.receive()
            self.reap()
            if request is None:
                return
            try:
                self.serve(request, fds)
            except OSError as exc:
                if self.zombie is not None:  # gpuemu is gone
                    self.kill(self.zombie)
                    return
                for fd in fds:
                    os.close(fd)
                self.reply({"ok": False, "reason": "not_started", "message": "fork: %s" % exc})

    def receive(self):
        data, want, fds = b"", 4, []
        while len(data) < want:
            part, got, _, _ = self.socket.recv_fds(self.sock, 1 << 16, 3)
            fds += got
            if not part:
                return None, fds
            data += part
            if want == 4 and len(data) >= 4:
                want = 4 + struct.unpack_from("<I", data)[0]
        return json.loads(data[4:]), fds

    def reply(self, header):
        text = json.dumps(header).encode("ascii")
        self.sock.sendall(struct.pack("<I", len(text)) + text)

    def reap(self):
        if self.zombie is not None:
            os.waitpid(self.zombie, 0)
            self.zombie = None

    def code_of(self, script):
        """The compiled script; None where it does not compile, which the child then says in its own words."""
        try:
            info = os.stat(script)
            known = self.codes.get(script)
            if known is None or known[:2] != (info.st_mtime_ns, info.st_size):
                with open(script, "rb") as f:
                    code = compile(f.read(), script, "exec", dont_inherit=True)
                known = self.codes[script] = (info.st_mtime_ns, info.st_size, code)
            return known[2]
        except Exception:
            return None

    def serve(self, request, fds):
        code = self.code_of(request["script"])
        begun, begin = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(begin)
                if os.read(begun, 1):  # gpuemu knows the pid: whatever ends the server from now on is the script's doing
                    os.close(begun)
                    status = self.child(request, code, fds)
            finally:
                os._exit(status)
        try:
            os.setpgid(pid, pid)  # the child does the same: whoever comes first
        except OSError:
            pass
        while fds:
            os.close(fds.pop())
        self.zombie = pid
        try:
            self.reply({"ok": True, "pid": pid})
            os.write(begin, b".")
        finally:
            os.close(begin)
            os.close(begun)
        status = self.wait(pid)
        if status is None:
            return  # gpuemu is gone
        self.reply({"ok": True, "exit": status[0], "signal": status[1]})

    def wait(self, pid):
        """Waits for the child or for the end of gpuemu, ends the child's group and returns (exit status, signal)."""
        while True:
            status = self.poll(pid)
            if status is not None:
                self.kill(pid)
                return status
            ready, _, _ = self.select.select([self.sock, self.wake], [], [])
            if self.wake in ready:
                try:
                    os.read(self.wake, 4096)
                except BlockingIOError:
                    pass
            if self.sock in ready and not self.sock.recv(1, self.socket.MSG_PEEK):
                self.kill(pid)
                return None

    def poll(self, pid):
        if hasattr(os, "waitid"):
            info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if info is None:
                return None
            return (info.si_status, 0) if info.si_code == os.CLD_EXITED else (0, info.si_status)
        got, status = os.waitpid(pid, os.WNOHANG)
        if got == 0:
            return None
        self.zombie = None
        return (os.WEXITSTATUS(status), 0) if os.WIFEXITED(status) else (0, os.WTERMSIG(status))

    def kill(self, pid):
        try:
            os.killpg(pid, self.signal.SIGKILL)
        except OSError:
            pass

    def child(self, request, code, fds):
        """Is the script: what a fresh interpreter would be, as far as a script can see. Returns the exit status."""
        try:
            os.setpgid(0, 0)
        except OSError:
            pass
        self.signal.set_wakeup_fd(-1)
        self.signal.signal(self.signal.SIGCHLD, self.signal.SIG_DFL)
        for i in range(3):
            os.dup2(fds[i], i)
        for fd in fds + [self.wake, self.waker]:
            os.close(fd)
        self.sock.close()
        if "numpy.random" in sys.modules:
            np.random.seed()  # every process has its own global state, and so has every child
        script = request["script"]
        sys.argv = [script]
        sys.path.insert(0, os.path.dirname(script))
        main = self.types.ModuleType("__main__")
        main.__file__ = script
        main.__builtins__ = __builtins__
        sys.modules["__main__"] = main
        status = 0
        try:
            if code is None:
                with open(script, "rb") as f:
                    code = compile(f.read(), script, "exec", dont_inherit=True)
            if request.get("working"):
                return self.finish(self.run_working(request["working"], code, main))
            exec(code, main.__dict__)
        except SystemExit as exc:
            status = exit_status(exc.code)
        except BaseException as exc:
            exc = exc.with_traceback(exc.__traceback__.tb_next)  # without this frame
            sys.excepthook(type(exc), exc, exc.__traceback__)
            status = 1
        return self.finish(status)

    def run_working(self, working, code, main):
        """The script in the working precision. What it reads from bytes are its inputs."""
        widest = FORMATS[working["widest"]][1]
        if widest is None:
            return WORKING_REFUSED
        with WorkingPrecision(np, np.dtype(widest), int(working["seed"]), from_bytes=True) as precision:  # noqa: F821
            exec(code, main.__dict__)
        return 0 if precision.operations() else WORKING_REFUSED

    def finish(self, status):
        """What an interpreter does at its end, without taking itself apart."""
        import atexit
        import threading

        try:
            threading._shutdown()
            atexit._run_exitfuncs()
        except BaseException:
            traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except ValueError:
                pass  # closed by the script
            except BaseException:
                status = status or 120  # as Python does
        return status


def exit_status(code):
    """The status of sys.exit(code)."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    # Bytecode is found by a time in seconds and a size: a module that is edited faster would be run as it was before.
    sys.dont_write_bytecode = True
    if sys.argv[1:] == ["call"]:
        Worker().run()
    elif sys.argv[1:] == ["serve"]:
        Server().run()
        os._exit(0)  # nothing is left to be taken apart with care
    else:
        sys.exit("usage: worker.py call|serve, started by gpuemu")
