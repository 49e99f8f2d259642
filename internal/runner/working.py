"""The working precision: evaluates a function written in numpy as an implementation of it would compute.

gpuemu puts this file in front of worker.py. It knows nothing of the protocols.
"""


def working_arrays(np, widest, seed):
    """Returns a subclass of numpy's array whose operations compute in the working precision and round at random.

    A reference written for float64 says what is computed, not what a kernel's arithmetic makes of it. On these arrays no
    result is wider than the dtype widest, whatever the function casts to, and each rounded result moves by one unit in
    the last place at random (Parker, "Monte Carlo arithmetic", 1997; CESTAC before it). Terms of a sum move before they
    are added: that stands for other orders of summation. Operations that do not round (max, abs, comparisons) are left
    alone. Where finite numbers overflow in a sum or a product the result is NaN, which nothing later can hide; exp may
    overflow, since 1 / (1 + exp(-x)) is meant to.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    make, where = np.asarray, np.where  # as they are now: see WorkingPrecision
    # Names, not functions: dtypes of ml_dtypes and old versions of numpy lack some of them.
    unrounded = frozenset("maximum minimum fmax fmin negative positive absolute fabs floor ceil trunc rint sign copysign "
                          "conjugate remainder fmod".split())  # fmt: skip
    overflowing = frozenset("add subtract multiply square power float_power matmul".split())
    linear = frozenset("dot vdot inner tensordot einsum convolve correlate".split())

    def is_float(dt):
        return dt.kind == "f" or dt.name.startswith(("bfloat", "float"))  # those of ml_dtypes are of kind V

    def narrowed(x):
        """x without what is wider than the working precision, as a plain array; Python's numbers have no width."""
        if isinstance(x, (np.ndarray, np.generic)):
            x = x.view(np.ndarray) if isinstance(x, Working) else x
            if is_float(x.dtype) and x.dtype.itemsize > widest.itemsize:
                x = x.astype(widest)
        return x

    def moved(x):
        """x with each element one unit up, one down or as it is. Zeros and what is not finite stay."""
        x = make(narrowed(x))
        if not is_float(x.dtype) or x.size == 0:
            return x
        step = rng.integers(-1, 2, x.shape, dtype=np.int8)
        out = np.nextafter(x, where(step > 0, np.inf, -np.inf).astype(x.dtype))
        return where((step == 0) | (x == 0) | ~np.isfinite(x) | ~np.isfinite(out), x, out)

    def wrapped(x, rounds):
        """A result as an array of the working precision."""
        if isinstance(x, (tuple, list)):
            return type(x)(wrapped(v, rounds) for v in x) if type(x) in (tuple, list) else x
        if not isinstance(x, (np.ndarray, np.generic)) or not is_float(x.dtype):
            return x.view(np.ndarray) if isinstance(x, Working) else x
        return (moved(x) if rounds else make(narrowed(x))).view(Working)

    def limit(dt):
        """What counts as overflow. Other algorithms have other intermediates (attention before it is normalized), so that
        formats with a wide range keep room for sums of a thousand terms. In float16 that would leave nothing."""
        largest = float(np.nextafter(dt.type(np.inf), dt.type(0)))  # np.finfo knows none of ml_dtypes
        if largest != largest:
            return np.inf  # a format without infinities: overflow is NaN already
        return largest / 1024 if dt.itemsize >= 4 else largest

    def lost(ufunc, method, inputs, kwargs, result):
        """Where finite numbers overflow on the way to a result, in whatever order they are added."""
        most = limit(result.dtype)
        known = [np.isfinite(x) for x in inputs]
        if method == "reduce" or ufunc.__name__ == "matmul":
            terms = [where(k, np.abs(x), x.dtype.type(0)) for k, x in zip(known, inputs)]
            return ~(getattr(ufunc, method)(*terms, **kwargs) <= most)
        return ~(np.abs(result) <= most) & known[0] & known[-1]

    def summed(x, axis, keepdims, kwargs):
        """The sum over an axis, one term after the other in a random order."""
        x = np.take(x, rng.permutation(x.shape[axis]), axis)
        last = np.take(np.add.accumulate(x, axis=axis, **kwargs), -1, axis)
        return np.expand_dims(last, axis) if keepdims else last

    def reduced(x, kwargs):
        """A sum. In every second evaluation it is made term by term: kernels do both, and pairwise is far better."""
        axis, keepdims = kwargs.get("axis", 0), kwargs.get("keepdims", False)
        axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
        plain = set(kwargs) <= {"axis", "keepdims", "dtype", "where"} and kwargs.get("where", True) is True
        if seed % 2 == 0 or not plain or not isinstance(axis, int) or x.shape[axis] == 0 or x.dtype.itemsize < 4:
            return np.add.reduce(x, **kwargs)
        return summed(x, axis, keepdims, {k: v for k, v in kwargs.items() if k == "dtype"})

    class Working(np.ndarray):
        operations = 0  # what was computed: a function that strips the type has none

        def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
            Working.operations += 1
            name = ufunc.__name__
            inputs = [narrowed(x) for x in inputs]
            kwargs = {k: narrowed(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
            if kwargs.get("dtype") is not None:
                kwargs["dtype"] = within(kwargs["dtype"])
            if method == "at":
                return getattr(ufunc, method)(self.view(np.ndarray), *inputs[1:], **kwargs)
            if name == "matmul" or (name == "add" and method != "__call__"):
                inputs = [moved(x) for x in inputs]
            sums = name == "add" and method == "reduce" and is_float(inputs[0].dtype)
            result = reduced(inputs[0], kwargs) if sums else getattr(ufunc, method)(*inputs, **kwargs)
            if name in overflowing and method in ("__call__", "reduce"):
                result = make(narrowed(result))
                if is_float(result.dtype) and (gone := lost(ufunc, method, inputs, kwargs, result)).any():
                    result = where(gone, result.dtype.type(np.nan), result)
            result = wrapped(result, name not in unrounded)
            if out is not None:
                for target, value in zip(out, result if isinstance(result, tuple) else (result,)):
                    np.copyto(target.view(np.ndarray), make(value), casting="unsafe")
                return out[0] if len(out) == 1 else out
            return result

        def __array_function__(self, func, types, args, kwargs):
            if func.__name__ not in linear and not (func.__module__ or "").startswith("numpy.linalg"):
                return wrapped(super().__array_function__(func, types, args, kwargs), False)
            Working.operations += 1
            return wrapped(func(*(moved(x) if isinstance(x, Working) else x for x in args), **kwargs), True)

        def astype(self, dtype, *args, **kwargs):
            return wrapped(self.view(np.ndarray).astype(within(dtype), *args, **kwargs), False)

        def dot(self, other, out=None):
            return np.dot(self, other)

    def within(dtype):
        dt = np.dtype(dtype)
        return widest if is_float(dt) and dt.itemsize > widest.itemsize else dt

    return Working


class WorkingPrecision:
    """While it is entered, numpy's constructors keep arrays of the working precision, which they strip otherwise."""

    NAMES = ("array", "asarray", "ascontiguousarray", "frombuffer")

    def __init__(self, np, widest, seed, from_bytes=False):
        self.np, self.type = np, working_arrays(np, widest, seed)
        self.from_bytes = from_bytes  # arrays read from bytes are inputs: those of a script
        self.saved = {name: getattr(np, name) for name in self.NAMES}

    def __enter__(self):
        for name in self.NAMES:
            setattr(self.np, name, self.keeping(name))
        self.errors = self.np.errstate(all="ignore")
        self.errors.__enter__()
        return self

    def __exit__(self, *exc):
        self.errors.__exit__(*exc)
        for name in self.NAMES:
            setattr(self.np, name, self.saved[name])

    def entered(self, array):
        """An input in the working precision; integers stay what they are."""
        return array.view(self.type) if "float" in array.dtype.name else array

    def operations(self):
        """How much was computed. None: the function left the type, and what it returned says nothing."""
        return self.type.operations

    def keeping(self, name):
        make, entered = self.saved[name], self.from_bytes and name == "frombuffer"

        def made(x, *args, **kwargs):
            if not isinstance(x, self.type):
                array = make(x, *args, **kwargs)
                return self.entered(array) if entered else array
            dtype = args[0] if args else kwargs.get("dtype")
            array = x.copy() if name == "array" else x
            return array if dtype is None else array.astype(dtype)

        return made
