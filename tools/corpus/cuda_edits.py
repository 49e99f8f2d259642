"""What each operator does to a CUDA source. A function yields its places in the order of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cuda_source import Assignment, Cuda, Loop, Span
from source import Site

Sites = Iterator[Site]
EXPONENTIALS = ("expf", "__expf", "exp2f")


# mask


def holds_load(src: Cuda, span: Span) -> bool:
    return any(span[0] <= i < span[1] for i, _ in src.loads())


def holds_store(src: Cuda, span: Span) -> bool:
    return any(span[0] <= a.op < span[1] for a, _ in src.stores())


def integer_tests(src: Cuda, span: Span, *ops: str) -> Iterator[int]:
    """Comparisons of indexes inside a condition."""
    for i in src.binary(*ops, within=span):
        if not src.is_float(src.left(i)) and not src.is_float(src.right(i)):
            yield i


def mask_drop_load(src: Cuda) -> Sites:
    for test, value, other in src.ternaries():
        if holds_load(src, value) and any(integer_tests(src, test, "<")):
            yield src.put((test[0], other[1]), src.get(value))


def mask_drop_store(src: Cuda) -> Sites:
    for test, body in src.guards():
        if holds_store(src, body) and any(integer_tests(src, test, "<")):
            yield src.put(test, "true")
        elif src.word(body[0] + 1) == "return" and any(integer_tests(src, test, ">=")):
            yield src.put(test, "false")


def conditions(src: Cuda) -> list[Span]:
    """Conditions of if statements and of conditional expressions, and boolean values that are kept."""
    found = [test for test, _ in src.guards()] + [test for test, _, _ in src.ternaries()]
    found += [a.value for a in src.assignments() if src.declared(a.place[0]) == "bool"]
    return sorted(found)


def mask_le(src: Cuda) -> Sites:
    seen = set()
    for test in conditions(src):
        for i in integer_tests(src, test, "<", ">="):
            if i not in seen:
                seen.add(i)
                yield src.put((i, i + 1), "<=" if src.word(i) == "<" else ">")


def mask_other(src: Cuda) -> Sites:
    for test, value, other in src.ternaries():
        if holds_load(src, value) and any(integer_tests(src, test, "<")):
            text = src.get(other)
            if text in ("0.0f", "-INFINITY"):
                yield src.put(other, "-INFINITY" if text == "0.0f" else "0.0f")


def mask_axis(src: Cuda) -> Sites:
    for i in src.binary("&&"):
        tests = [next(integer_tests(src, side, "<"), None) for side in (src.left(i), src.right(i))]
        if tests[0] is not None and tests[1] is not None:
            one, two = src.right(tests[0]), src.right(tests[1])
            if src.get(one) != src.get(two):
                yield src.put(one, src.get(two)) + src.put(two, src.get(one))


def mask_half(src: Cuda) -> Sites:
    for i in src.binary("&&"):
        yield src.put(src.pair(i), src.get(src.left(i)))
        yield src.put(src.pair(i), src.get(src.right(i)))


# tile loop


def stride(src: Cuda, loop: Loop) -> tuple[str, Span | None]:
    """How a loop advances: "+", "/" for halving, or nothing that is known; and the span of the amount."""
    words = [src.word(i) for i in range(*loop.step)]
    if "++" in words:
        return "+", None
    for i in range(*loop.step):
        if src.word(i) in ("+=", "/=", ">>="):
            return ("+" if src.word(i) == "+=" else "/"), (i + 1, loop.step[1])
    return "", None


def amount(src: Cuda, step: Span | None) -> str:
    return "1" if step is None else src.operand(step)


def counted(src: Cuda) -> Iterator[tuple[Loop, str, Span | None, Span]]:
    """Loops that count upwards to a limit or halve, with the span of the limit."""
    for loop in src.loops:
        kind, step = stride(src, loop)
        test = next(src.binary("<", ">", within=loop.test), None)
        if test is not None and kind == ("+" if src.word(test) == "<" else "/"):
            yield loop, kind, step, src.right(test)


def loop_floor(src: Cuda) -> Sites:
    for _, kind, step, limit in counted(src):
        if kind == "+" and step is not None:
            by = amount(src, step)
            yield src.put(limit, f"{src.operand(limit)} / {by} * {by}")
    for i in src.binary("/"):
        rounded = src.word(i - 1) == ")" and src.word(i - 2) == "1" and src.word(i - 3) == "-"
        if rounded and not src.is_float(src.pair(i)):
            whole = src.match[i - 1] + 1
            plus = next(src.binary("+", within=(whole, i)), None)
            if plus is not None:
                yield src.put(src.pair(i), f"{src.get(src.left(plus))} / {src.get(src.right(i))}")


def loop_start(src: Cuda) -> Sites:
    for loop, kind, step, _ in counted(src):
        first = src.to_end(next(i for i in range(*loop.init) if src.word(i) == "=") + 1)
        if kind == "/":
            yield src.put(first, f"{src.operand(first)} / 2")
        else:
            by = amount(src, step)
            yield src.put(first, by if src.get(first) == "0" else f"{src.get(first)} + {by}")


def loop_last_tile(src: Cuda) -> Sites:
    for _, kind, step, limit in counted(src):
        yield src.put(limit, "1" if kind == "/" else f"{src.get(limit)} - {amount(src, step)}")


def loop_step(src: Cuda) -> Sites:
    for loop, kind, step, _ in counted(src):
        if step is None:
            name = next(src.word(i) for i in range(*loop.step) if src.word(i) != "++")
            yield src.put(loop.step, f"{name} += 2")
        else:
            yield src.put(step, "4" if kind == "/" else f"{src.get(step)} + 1")


def read_past_end(src: Cuda) -> Sites:
    for loop, kind, _, _ in counted(src):
        test = next(src.binary("<", within=loop.test), None)
        if kind == "+" and test is not None and holds_load(src, loop.body):
            yield src.put((test, test + 1), "<=")


def partial_compute(src: Cuda) -> Sites:
    for _, kind, step, limit in counted(src):
        if kind == "+" and step is not None:
            yield src.put(limit, f"min({src.get(limit)}, {src.get(step)})")


# index


def products(src: Cuda) -> Iterator[tuple[int, str]]:
    """Products with a name on the right: the operator's token and the name."""
    for i in src.binary("*"):
        right = src.right(i)
        if right[1] - right[0] == 1:
            yield i, src.word(right[0])


def stride_swap(src: Cuda) -> Sites:
    strides = src.strides()
    found = [(i, name) for i, name in products(src) if name in strides]
    for (i, one), (j, two) in zip(found, found[1:]):
        joined = any(src.word(k) == "+" and src.left(k)[0] <= i and src.right(k)[1] >= j for k in src.binary("+"))
        if joined and strides[one][0] == strides[two][0]:
            yield src.put((i + 1, i + 2), two) + src.put((j + 1, j + 2), one)


def stride_contiguous(src: Cuda) -> Sites:
    strides = src.strides()
    last = {tensor: max(axis for t, axis in strides.values() if t == tensor) for tensor, _ in strides.values()}
    for i, name in products(src):
        if name in strides and strides[name][1] == last[strides[name][0]]:
            yield src.put(src.pair(i), src.get(src.left(i)))


def index_row_col(src: Cuda) -> Sites:
    for i in src.binary("+"):
        left, right = src.left(i), src.right(i)
        times = next(src.binary("*", within=left), None)
        if times is None or src.is_float((left[0], right[1])) or right[1] - right[0] != 1:
            continue
        row = src.left(times)
        if src.pair(times) == left and src.word(times + 1) in src.dims():
            yield src.put(row, src.get(right)) + src.put(right, src.operand(row))


def index_off_by_one(src: Cuda) -> Sites:
    return (src.put(index, f"{src.get(index)} + 1") for _, index in src.loads())


def pid_swap(src: Cuda) -> Sites:
    for i, token in enumerate(src.tokens):
        if token.text in ("blockIdx", "threadIdx") and src.word(i + 1) == ".":
            yield src.put((i + 2, i + 3), "y" if src.word(i + 2) == "x" else "x")


def index_div_mod(src: Cuda) -> Sites:
    taken = {*grouped_heads(src), *groups(src)}
    for i in src.binary("/", "%"):
        fixed = {src.word(j) for j in range(*src.pair(i)) if src.tokens[j].kind == "name"} <= set(src.dims())
        if i not in taken and not fixed and not src.is_float(src.pair(i)) and not src.in_header(i):
            yield src.put((i, i + 1), "%" if src.word(i) == "/" else "/")


def operand_swap(src: Cuda) -> Sites:
    inputs = list(dict.fromkeys(src.word(i) for i, _ in src.loads() if src.word(i) in src.params))
    for i, _ in src.loads():
        if src.word(i) in inputs:
            others = [p for p in inputs if p != src.word(i) and src.params[p] == src.params[src.word(i)]]
            if others:
                yield src.put((i, i + 1), others[0])


# accumulate


def updates(src: Cuda) -> Iterator[tuple[Assignment, Span]]:
    """Statements of a loop that add to a float from before, each with what is added."""
    for a in src.assignments():
        if src.body_of(a.op) is None or src.in_header(a.op) or not src.is_float(a.place):
            continue
        if src.word(a.op) == "+=":
            yield a, a.value
        elif src.word(a.op) == "=":
            plus = [i for i in src.top(a.value) if src.word(i) == "+" and src.is_binary(i)]
            place = src.get(a.place)
            if plus and src.left(plus[-1])[0] == a.value[0] and src.get(src.left(plus[-1])).startswith(place):
                yield a, src.right(plus[-1])


def acc_assign(src: Cuda) -> Sites:
    for a, value in updates(src):
        yield src.put((a.place[0], a.value[1]), f"{src.get(a.place)} = {src.get(value)}")


def acc_init_one(src: Cuda) -> Sites:
    carried = {src.get(a.place) for a, _ in updates(src)}
    for a in src.assignments():
        if src.get(a.place) in carried and src.get(a.value) == "0.0f" and src.word(a.op) == "=":
            yield src.put(a.value, "1.0f")


def acc_narrow(src: Cuda) -> Sites:
    for a, _ in updates(src):
        place = src.get(a.place)
        new = f"{place} + {src.operand(a.value)}" if src.word(a.op) == "+=" else src.get(a.value)
        yield src.put((a.place[0], a.value[1]), f"{place} = float(__half({new}))")


def cast_before_sum(src: Cuda) -> Sites:
    return (src.put(value, f"float(__half({src.get(value)}))") for _, value in updates(src))


# online softmax


def differences(src: Cuda) -> Iterator[tuple[int, Span, Span]]:
    """Exponentials of a difference: the call, and both sides."""
    for i in src.calls(*EXPONENTIALS):
        arg = src.args(i)[0]
        minus = [j for j in src.top(arg) if src.word(j) == "-" and src.is_binary(j)]
        if minus and src.left(minus[-1])[0] == arg[0]:
            yield i, src.left(minus[-1]), src.right(minus[-1])


def rescalings(src: Cuda) -> dict[int, str]:
    """Exponentials that rescale a sum to a new maximum, each with the name of the old one, which is set afterwards."""
    found = {}
    for i, old, _ in differences(src):
        loop = src.body_of(i)
        later = [a for a in src.assignments() if loop is not None and i < a.op < loop.body[1]]
        if old[1] - old[0] == 1 and any(src.get(a.place) == src.get(old) for a in later):
            found[i] = src.get(old)
    return found


def alpha_products(src: Cuda) -> Iterator[tuple[bool, Site]]:
    """Products with such a factor: whether an element of an array is rescaled, and the edit that drops the factor."""
    factors = rescalings(src)
    names = {src.get(a.place) for a in src.assignments() if a.value[0] in factors}
    for i in src.binary("*"):
        right = src.right(i)
        if right[0] in factors or src.get(right) in names:
            yield src.word(i - 1) == "]", src.put(src.pair(i), src.get(src.left(i)))
    for a in src.assignments():
        if src.word(a.op) == "*=" and (a.value[0] in factors or src.get(a.value) in names):
            yield src.word(a.op - 1) == "]", src.put(a.value, "1.0f")


def alpha_drop_acc(src: Cuda) -> Sites:
    return (site for wide, site in alpha_products(src) if wide)


def alpha_drop_sum(src: Cuda) -> Sites:
    return (site for wide, site in alpha_products(src) if not wide)


def max_not_subtracted(src: Cuda) -> Sites:
    old = rescalings(src)
    for i, score, top in differences(src):
        if i not in old:
            yield src.put((score[0], top[1]), src.get(score))


def exp_base(src: Cuda) -> Sites:
    other = {"expf": "exp2f", "__expf": "exp2f", "exp2f": "expf", "logf": "log2f", "__logf": "log2f", "log2f": "logf"}
    return (src.put((i, i + 1), other[src.word(i)]) for i in src.calls(*other))


def stale_max(src: Cuda) -> Sites:
    old = rescalings(src)
    for i, _, top in differences(src):
        loop = src.body_of(i)
        names = [name for j, name in old.items() if loop is not None and loop.body[0] <= j < loop.body[1]]
        if i not in old and names and src.get(top) != names[0]:
            yield src.put(top, names[0])


def max_of_tile(src: Cuda) -> Sites:
    old = set(rescalings(src).values())
    for i in src.calls("fmaxf"):
        first, second = src.args(i)
        if src.get(first) in old and src.body_of(i) is not None:
            yield src.put(src.call(i), src.get(second))


def max_init(src: Cuda) -> Sites:
    for a in src.assignments():
        if src.get(a.value) in ("-INFINITY", "LOWEST", "-FLT_MAX") and src.declared(a.place[0]) == "float":
            yield src.put(a.value, "0.0f")


# attention


def scalings(src: Cuda) -> Iterator[tuple[int, str]]:
    return ((i, name) for i, name in products(src) if src.facts.attention and "scale" in name)


def scale_missing(src: Cuda) -> Sites:
    return (src.put(src.pair(i), src.get(src.left(i))) for i, _ in scalings(src))


def scale_wrong(src: Cuda) -> Sites:
    return (src.put(src.right(i), f"{name} * {name}") for i, name in scalings(src))


def attention_tests(src: Cuda, *ops: str) -> Iterator[int]:
    spans = conditions(src) + [loop.test for loop in src.loops]
    if src.facts.attention:
        yield from sorted({i for span in spans for i in integer_tests(src, span, *ops)})


def causal_off_by_one(src: Cuda) -> Sites:
    other = {"<=": "<", ">=": ">", ">": ">="}
    for i in attention_tests(src, *other):
        if src.tokens[src.right(i)[0]].kind != "number":
            yield src.put((i, i + 1), other[src.word(i)])
    for i in src.binary("+") if src.facts.attention else ():
        if src.get(src.right(i)) == "1" and src.body_of(i) is None and not src.in_header(i):
            yield src.put(src.pair(i), src.get(src.left(i)))


def causal_align(src: Cuda) -> Sites:
    """The difference of both lengths, as a parameter or written out, is left out."""
    for i in src.binary("+") if src.facts.attention else ():
        if src.word(i + 2) == "-" and {src.word(i + 1), src.word(i + 3)} <= set(src.dims()):
            yield src.put((src.left(i)[0], i + 4), src.get(src.left(i)))
    for i in src.binary("+"):
        right = src.right(i)
        written = [src.word(j) for j in range(*right) if src.tokens[j].kind == "name"]
        given = len(written) == 1 and "-" in str(src.arguments.get(written[0], ""))
        difference = "-" in src.get(right) and len(written) == 2 and set(written) <= set(src.dims())
        if src.facts.attention and (given or difference):
            yield src.put(src.pair(i), src.get(src.left(i)))


def score_mask_drop(src: Cuda) -> Sites:
    for test, value, other in src.ternaries():
        if src.facts.attention and src.get(other) == "-INFINITY" and not holds_load(src, value):
            yield src.put((test[0], other[1]), src.get(value))


def grouped_heads(src: Cuda) -> Iterator[int]:
    """Quotients that give the key head of a query head: the divisor is the number of query heads to a key head."""
    for i in src.binary("/"):
        if src.facts.attention and "HKV" in src.get(src.right(i)) and "HQ" in src.get(src.right(i)):
            yield i


def head_map(src: Cuda) -> Sites:
    return (src.put((i, i + 1), "%") for i in grouped_heads(src))


# normalise


def sqrt_drop(src: Cuda) -> Sites:
    for i in src.calls("sqrtf", "rsqrtf"):
        inner = src.get(src.args(i)[0])
        yield src.put(src.call(i), f"({inner})" if src.word(i) == "sqrtf" else f"(1.0f / ({inner}))")


def epsilons(src: Cuda) -> Iterator[int]:
    return (i for i in src.binary("+") if src.word(i + 1).startswith("eps"))


def eps_drop(src: Cuda) -> Sites:
    for i in epsilons(src):
        yield src.put(src.pair(i), src.get(src.left(i)))
    for test, value, other in src.ternaries():
        if src.get(value).startswith("eps"):
            yield src.put((test[0], other[1]), src.get(other))
    for i in src.calls("fmaxf"):
        if src.get(src.args(i)[1]).startswith("eps"):
            yield src.put(src.call(i), src.get(src.args(i)[0]))


def eps_outside(src: Cuda) -> Sites:
    plus = set(epsilons(src))
    for i in src.calls("sqrtf", "rsqrtf"):
        arg = src.args(i)[0]
        inner = next((j for j in src.top(arg) if j in plus), None)
        if inner is not None:
            root = f"(sqrtf({src.get(src.left(inner))}) + {src.get(src.right(inner))})"
            yield src.put(src.call(i), root if src.word(i) == "sqrtf" else f"(1.0f / {root})")


def eps_wrong(src: Cuda) -> Sites:
    return (src.put((i + 1, i + 2), f"{src.word(i + 1)} * 10.0f") for i in epsilons(src))


def averages(src: Cuda) -> Iterator[tuple[Span, str]]:
    """Divisors that are a length: their span and the integer in them."""
    for i in src.binary("/"):
        right = src.right(i)
        inner = src.args(right[0])[0] if src.word(right[0]) == "float" and src.word(right[0] + 1) == "(" else right
        if src.get(inner) in lengths(src) and src.is_float(src.pair(i)):
            yield right, src.get(inner)


def lengths(src: Cuda) -> set[str]:
    """Sizes, and integers that are products or quotients of them."""
    found = set(src.dims())
    for a in src.assignments():
        named = {src.word(i) for i in range(*a.value) if src.tokens[i].kind == "name"}
        if src.declared(a.place[0]) == "int" and named and named <= found:
            found.add(src.word(a.place[0]))
    return found


def n_minus_one(src: Cuda) -> Sites:
    return (src.put(span, f"float({name} - 1)") for span, name in averages(src))


def block_as_divisor(src: Cuda) -> Sites:
    return (src.put(span, "float(blockDim.x)") for span, _ in averages(src))


def mean_drop(src: Cuda) -> Sites:
    for i in src.binary("-"):
        right = src.right(i)
        if src.word(right[1] - 1) in ("mean", "centre", "mu") and src.is_float(src.pair(i)):
            yield src.put(src.pair(i), src.get(src.left(i)))


# constants and signs


def literals(src: Cuda) -> Iterator[tuple[Span, float]]:
    """Float literals of formulas: neither zero nor what stands beyond a mask."""
    for i, token in enumerate(src.tokens):
        if token.kind == "number" and token.text[-1] in "fF" and not token.text.lower().startswith("0x"):
            value = float(token.text[:-1])
            if value != 0.0:
                yield (i, i + 1), value


def const_percent(src: Cuda) -> Sites:
    return (src.put(span, f"{float(f'{value * 1.01:.8g}')!r}f") for span, value in literals(src))


def const_tenfold(src: Cuda) -> Sites:
    return (src.put(span, f"{float(f'{value * 10:.8g}')!r}f") for span, value in literals(src))


def sign_flip(src: Cuda) -> Sites:
    for i, token in enumerate(src.tokens):
        if token.text != "-":
            continue
        if src.is_binary(i):
            if src.is_float(src.pair(i)) and src.is_float(src.right(i)):
                yield src.put((i, i + 1), "+")
        elif src.tokens[i + 1].kind == "name" and src.word(i + 1) != "INFINITY" and src.is_float((i + 1, i + 2)):
            yield src.put((i, i + 2), src.word(i + 1))


# stored values


def with_value(src: Cuda, form: str) -> Sites:
    """Stores another value of a float format; {v} is what was stored."""
    for a, value in src.stores():
        if src.params[src.globals[src.word(a.place[0])]] in ("T", "float") and src.word(a.op) == "=":
            # What is stored as it is may be of a 16-bit format, which does not mix with float.
            text = src.operand(value) if value != a.value else f"float({src.get(value)})"
            yield src.put(a.value, f"T({form.format(v=text)})")


def nan_swallow(src: Cuda) -> Sites:
    return with_value(src, "{v} == {v} ? {v} : 0.0f")


def inf_clamp(src: Cuda) -> Sites:
    if src.facts.bounded:
        return iter(())  # what is at most 1 needs no clamp
    return with_value(src, "{v} > 65504.0f ? 65504.0f : {v}")


def return_zeros(src: Cuda) -> Sites:
    return with_value(src, "0.0f")


def constant_output(src: Cuda) -> Sites:
    return with_value(src, "1.0f")


def store_skip_rows(src: Cuda) -> Sites:
    for a, _ in src.stores():
        yield src.put((a.place[0], a.value[1]), f"if (blockIdx.x % 4 != 3) {src.get((a.place[0], a.value[1]))}")


def tail_unwritten(src: Cuda) -> Sites:
    """The guard of a store, or the loop around it, ends one element early."""
    tests = [test for test, body in src.guards() if holds_store(src, body) or src.word(body[0] + 1) == "return"]
    tests += [loop.test for loop in src.loops if holds_store(src, loop.body)]
    for test in sorted(tests):
        i = next(integer_tests(src, test, "<", ">="), None)
        if i is not None and any(src.word(j) in lengths(src) for j in range(*src.right(i))):
            yield src.put(src.right(i), f"{src.get(src.right(i))} - 1")


# concurrency


def barrier_drop(src: Cuda) -> Sites:
    return (src.put(src.call(i), "") for i in src.calls("__syncthreads", "__syncwarp"))


def shuffle_wrong(src: Cuda) -> Sites:
    other = {"xor": "up", "down": "up", "up": "down"}
    for i, token in enumerate(src.tokens):
        if token.text.startswith("__shfl_") and token.text.split("_")[3] in other:
            kind = token.text.split("_")[3]
            yield src.put((i, i + 1), token.text.replace(kind, other[kind]))


def async_wait_drop(src: Cuda) -> Sites:
    return (src.put(src.call(i), "") for i, t in enumerate(src.tokens) if "wait" in t.text and src.word(i + 1) == "(")


def atomic_drop(src: Cuda) -> Sites:
    for i in (i for i in src.calls("atomicAdd") if src.word(i - 1) in (";", "{", "}")):
        place, value = src.args(i)
        target = src.get((place[0] + 1, place[1])) if src.word(place[0]) == "&" else f"*({src.get(place)})"
        yield src.put(src.call(i), f"{target} += {src.get(value)}")


# dispatch


def dispatch_one_size(src: Cuda) -> Sites:
    name = src.facts.size_name(src.dims(), src.arguments)
    return with_value(src, f"{name} == 64 ? {{v}} * 0.5f : {{v}}") if name is not None else iter(())


def dispatch_one_format(src: Cuda) -> Sites:
    return with_value(src, "{v} * (sizeof(T) == 2 ? 0.5f : 1.0f)")


# quantisation


def clamp_bound(src: Cuda) -> Sites:
    for i, token in enumerate(src.tokens):
        if src.facts.quantises and token.text in ("127.0f", "127", "448.0f", "128"):
            half = {"127.0f": "63.5f", "127": "63", "448.0f": "224.0f", "128": "64"}[token.text]
            yield src.put((i, i + 1), half)


def round_mode(src: Cuda) -> Sites:
    other = {"rintf": "floorf", "nearbyintf": "floorf", "roundf": "floorf", "__float2int_rn": "__float2int_rd"}
    return (src.put((i, i + 1), other[src.word(i)]) for i in src.calls(*other))


def scale_inverse(src: Cuda) -> Sites:
    scales = set()
    for a in src.assignments():
        words = {src.word(i) for i in range(*a.value)}
        if words & {"127.0f", "448.0f", "LARGEST"} or any("scale" in w for w in words):
            scales.add(src.get(a.place))
    for i in src.binary("*", "/"):
        if src.facts.quantises and src.get(src.right(i)) in scales and src.is_float(src.pair(i)):
            yield src.put((i, i + 1), "/" if src.word(i) == "*" else "*")


def groups(src: Cuda) -> Iterator[int]:
    """Quotients that give a number of groups."""
    for i in src.binary("/", "%"):
        if src.facts.quantises and src.get(src.right(i)) == "group" and not src.in_header(i):
            yield i


def group_wrong(src: Cuda) -> Sites:
    return (src.put(src.right(i), f"({src.get(src.right(i))} * 2)") for i in groups(src))


EDITS: dict[str, Callable[[Cuda], Sites]] = {
    f.__name__: f
    for f in (
        mask_drop_load, mask_drop_store, mask_le, mask_other, mask_axis, mask_half,
        loop_floor, loop_start, loop_last_tile, loop_step,
        stride_swap, stride_contiguous, index_row_col, index_off_by_one, pid_swap, index_div_mod, operand_swap,
        acc_assign, acc_init_one, acc_narrow, cast_before_sum,
        alpha_drop_acc, alpha_drop_sum, max_not_subtracted, exp_base, stale_max, max_of_tile, max_init,
        scale_missing, scale_wrong, causal_off_by_one, causal_align, score_mask_drop, head_map,
        sqrt_drop, eps_drop, eps_outside, eps_wrong, n_minus_one, block_as_divisor, mean_drop,
        const_percent, const_tenfold, sign_flip,
        nan_swallow, inf_clamp,
        read_past_end, tail_unwritten,
        barrier_drop, shuffle_wrong, async_wait_drop, atomic_drop,
        clamp_bound, round_mode, scale_inverse, group_wrong,
        dispatch_one_size, dispatch_one_format,
        return_zeros, constant_output, store_skip_rows, partial_compute,
    )
}  # fmt: skip
