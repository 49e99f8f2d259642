"""What each operator does to a Triton source. A function yields its places in the order of the source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from source import Edit, Site
from triton_source import Triton, called

Sites = Iterator[Site]
LESS = {ast.LtE: ("<=", "<"), ast.GtE: (">=", ">"), ast.Gt: (">", ">="), ast.Lt: ("<", "<=")}
MINUS_INFINITY = 'float("-inf")'
HALF = ".to(tl.float16).to(tl.float32)"


# mask


def without(src: Triton, call: ast.Call, *drop: str) -> Site:
    """The call without some of its keywords."""
    parts = [src.get(a) for a in call.args]
    parts += [f"{k.arg}={src.get(k.value)}" for k in call.keywords if k.arg not in drop]
    return src.put(call, f"{src.get(call.func)}({', '.join(parts)})")


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def mask_drop_load(src: Triton) -> Sites:
    return (without(src, c, "mask", "other") for c in src.calls("load") if keyword(c, "mask") is not None)


def mask_drop_store(src: Triton) -> Sites:
    return (without(src, c, "mask") for c in src.calls("store") if keyword(c, "mask") is not None)


def index_compares(src: Triton, *ops: type[ast.cmpop]) -> Iterator[ast.Compare]:
    """Comparisons of indexes, those of branches on constants left out."""
    for node in src.compares(*ops):
        branch = src.inside(node, (ast.If, ast.While, ast.IfExp))
        in_test = branch is not None and any(n is node for n in ast.walk(branch.test))
        if not in_test and not src.is_float(node.left) and not src.is_float(node.comparators[0]):
            yield node


def mask_le(src: Triton) -> Sites:
    return (src.between(c.left, c.comparators[0], "<", "<=") for c in index_compares(src, ast.Lt))


def mask_other(src: Triton) -> Sites:
    if not src.reduces():
        return  # lanes beyond the end never meet the others
    for call in src.calls("load"):
        other = keyword(call, "other")
        if other is not None and src.is_float(call):
            is_zero = isinstance(other, ast.Constant) and other.value == 0
            yield src.put(other, MINUS_INFINITY if is_zero else "0.0")


def mask_axis(src: Triton) -> Sites:
    for node in src.binary(ast.BitAnd):
        pair = [n for n in (node.left, node.right) if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Lt)]
        if len(pair) == 2:
            bounds = [n.comparators[0] for n in pair]
            if src.get(bounds[0]) != src.get(bounds[1]):
                yield src.put(bounds[0], src.get(bounds[1])) + src.put(bounds[1], src.get(bounds[0]))


def mask_half(src: Triton) -> Sites:
    for node in src.binary(ast.BitAnd):
        yield src.keep(node, node.left)
        yield src.keep(node, node.right)


# tile loop


def bounds(args: list[ast.expr]) -> tuple[ast.expr | None, ast.expr, ast.expr | None]:
    """Start, stop and step of a loop."""
    return (args[0] if len(args) > 1 else None), args[min(1, len(args) - 1)], (args[2] if len(args) > 2 else None)


def loop_floor(src: Triton) -> Sites:
    for _, args in src.loops():
        _, stop, step = bounds(args)
        if step is not None:
            yield src.put(stop, f"{src.operand(stop)} // {src.operand(step)} * {src.operand(step)}")
    for call in src.calls("cdiv"):
        yield src.put(call, f"({src.operand(call.args[0])} // {src.operand(call.args[1])})")


def loop_start(src: Triton) -> Sites:
    for _, args in src.loops():
        start, stop, step = bounds(args)
        by = "1" if step is None else src.get(step)
        if start is None:
            yield src.put(stop, f"{by}, {src.get(stop)}")
        else:
            zero = isinstance(start, ast.Constant) and start.value == 0
            yield src.put(start, by if zero else f"{src.get(start)} + {by}")


def loop_last_tile(src: Triton) -> Sites:
    for _, args in src.loops():
        _, stop, step = bounds(args)
        yield src.put(stop, f"{src.operand(stop)} - {'1' if step is None else src.operand(step)}")


def loop_step(src: Triton) -> Sites:
    for _, args in src.loops():
        start, stop, step = bounds(args)
        if step is not None:
            yield src.put(step, f"{src.get(step)} + 1")
        else:
            yield src.put(stop, f"{'0, ' if start is None else ''}{src.get(stop)}, 2")


# index


def terms(node: ast.expr) -> list[ast.expr]:
    """The summands of a sum."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return terms(node.left) + terms(node.right)
    return [node]


def sums(src: Triton) -> Iterator[list[ast.expr]]:
    """The summands of every sum that is no part of another one."""
    for node in src.binary(ast.Add):
        parent = src.parents.get(node)
        if not (isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add)):
            yield terms(node)


def stride_swap(src: Triton) -> Sites:
    strides = src.strides()
    for parts in sums(src):
        named = [p.right for p in parts if isinstance(p, ast.BinOp) and isinstance(p.op, ast.Mult)]
        names = [n for n in named if isinstance(n, ast.Name) and n.id in strides]
        for one, two in zip(names, names[1:]):
            if strides[one.id][0] == strides[two.id][0]:
                yield src.put(one, two.id) + src.put(two, one.id)


def stride_contiguous(src: Triton) -> Sites:
    strides = src.strides()
    last = {tensor: max(axis for t, axis in strides.values() if t == tensor) for tensor, _ in strides.values()}
    for node in src.binary(ast.Mult):
        if isinstance(node.right, ast.Name) and node.right.id in strides:
            tensor, axis = strides[node.right.id]
            if axis == last[tensor]:
                yield src.keep(node, node.left)


def index_row_col(src: Triton) -> Sites:
    strides = src.strides()
    for node in src.binary(ast.Add):
        left, right = node.left, node.right
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
            left = left.right
        if not isinstance(left, ast.BinOp) or not isinstance(left.op, ast.Mult) or src.is_float(node):
            continue
        length = left.right
        if isinstance(length, ast.Name) and length.id in src.dims() and not (set(names(right)) & set(strides)):
            yield src.put(left.left, src.operand(right)) + src.put(right, src.get(left.left))


def names(node: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]


def index_off_by_one(src: Triton) -> Sites:
    return (src.put(c.args[0], f"{src.get(c.args[0])} + 1") for c in src.calls("load"))


def pid_swap(src: Triton) -> Sites:
    for call in src.calls("program_id"):
        axis = call.args[0]
        if isinstance(axis, ast.Constant):
            yield src.put(axis, "1" if axis.value == 0 else str(int(str(axis.value)) - 1))


def index_div_mod(src: Triton) -> Sites:
    taken = {id(n) for n in [*grouped_heads(src), *groups(src)]}
    for node in src.binary(ast.FloorDiv, ast.Mod):
        if id(node) in taken or set(names(node)) <= set(src.dims()):
            continue  # the others' places, and what does not depend on the thread
        old, new = ("//", "%") if isinstance(node.op, ast.FloorDiv) else ("%", "//")
        yield src.between(node.left, node.right, old, new)


def operand_swap(src: Triton) -> Sites:
    inputs = []
    for call in src.calls("load"):
        root = src.root(call.args[0])
        if root is not None and root not in inputs:
            inputs.append(root)
    for call in src.calls("load"):
        for node in ast.walk(call.args[0]):
            if isinstance(node, ast.Name) and node.id in inputs:
                others = [p for p in inputs if p != node.id and src.kind(p) == src.kind(node.id)]
                if others:
                    yield src.put(node, others[0])


# accumulate


def updates(src: Triton) -> Iterator[tuple[ast.stmt, str, ast.expr]]:
    """Statements of a loop that add to a float from before: the statement, the name, and what is added."""
    for node in src.nodes:
        if src.inside(node, ast.For) is None:
            continue
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            if isinstance(node.op, ast.Add) and node.target.id in src.floats:
                yield node, node.target.id, node.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
            if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add) or name not in src.floats:
                continue
            if name in names(value.left) and name not in names(value.right):
                yield node, name, value.right


def acc_assign(src: Triton) -> Sites:
    for node, name, value in updates(src):
        yield src.put(node, f"{name} = {src.get(value)}")
    for call in src.calls("dot"):
        if len(call.args) > 2:
            yield (Edit(src.end(call.args[1]), src.end(call.args[2]), ""),)


def acc_init_one(src: Triton) -> Sites:
    carried = {name for _, name, _ in updates(src)}
    carried.update(n for c in src.calls("dot") for a in c.args[2:] for n in names(a))
    for node in src.all(ast.Assign):
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Name) or target.id not in carried or src.inside(node, ast.For) is not None:
            continue
        if isinstance(value, ast.Call) and called(value) == "zeros":
            one = "1" if "int" in src.get(value) else "1.0"
            parts = [src.get(value.args[0]), one, *(src.get(a) for a in [*value.args[1:], *value.keywords])]
            yield src.put(value, f"tl.full({', '.join(parts)})")
        elif isinstance(value, ast.Call) and called(value) == "full" and src.get(value.args[1]) in ("0", "0.0"):
            yield src.put(value.args[1], "1.0")
        elif isinstance(value, ast.Constant) and value.value == 0:
            yield src.put(value, "1.0")


def acc_narrow(src: Triton) -> Sites:
    for node, name, value in updates(src):
        new = f"{name} + {src.operand(value)}" if isinstance(node, ast.AugAssign) else src.get(node.value)  # type: ignore[attr-defined]
        yield src.put(node, f"{name} = ({new}){HALF}")
    for call in src.calls("dot"):
        if len(call.args) > 2:
            yield src.put(call, src.get(call) + HALF)


def cast_before_sum(src: Triton) -> Sites:
    for call in src.calls("sum", "cumsum"):
        if src.is_float(call.args[0]):
            back = Edit(src.end(call), src.end(call), ".to(tl.float32)")
            yield (*src.put(call.args[0], f"{src.operand(call.args[0])}.to(tl.float16)"), back)


def tf32(src: Triton) -> Sites:
    for call in src.calls("dot"):
        precision = keyword(call, "input_precision")
        if isinstance(precision, ast.Constant) and precision.value == "ieee":
            yield src.put(precision, '"tf32"')


# online softmax


def rescalings(src: Triton) -> dict[ast.Call, str]:
    """Exponentials that rescale sums to a new maximum, exp(m - new), each with the name of the old one."""
    found = {}
    for call in src.calls("exp", "exp2"):
        arg = call.args[0]
        old = arg.left if isinstance(arg, ast.BinOp) and isinstance(arg.op, ast.Sub) else None
        if not isinstance(old, ast.Name) or src.inside(call, ast.For) is None:
            continue
        if any(src.start(n) > src.start(call) and src.inside(n, ast.For) for n in src.assigned(old.id)):
            found[call] = old.id
    return found


def alpha_products(src: Triton) -> Iterator[tuple[bool, Site]]:
    """Products with such a factor: whether it has another axis than the sum of weights, and the edit that drops it."""
    calls = rescalings(src)
    named = {n for a in src.all(ast.Assign) if a.value in calls for n in names(a.targets[0])}

    def is_factor(node: ast.expr) -> bool:
        inner = node.value if isinstance(node, ast.Subscript) else node
        return inner in calls or (isinstance(inner, ast.Name) and inner.id in named)

    for node in src.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            if is_factor(node.right):
                yield isinstance(node.right, ast.Subscript), src.keep(node, node.left)
            elif is_factor(node.left):
                yield isinstance(node.left, ast.Subscript), src.keep(node, node.right)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult) and is_factor(node.value):
            yield isinstance(node.value, ast.Subscript), src.put(node.value, "1.0")


def alpha_drop_acc(src: Triton) -> Sites:
    return (site for wide, site in alpha_products(src) if wide)


def alpha_drop_sum(src: Triton) -> Sites:
    return (site for wide, site in alpha_products(src) if not wide)


def weights(src: Triton) -> Iterator[ast.BinOp]:
    """Differences inside exponentials that are no rescalings: a score less its maximum."""
    old = rescalings(src)
    for call in src.calls("exp", "exp2"):
        arg = call.args[0]
        if isinstance(arg, ast.BinOp) and isinstance(arg.op, ast.Sub) and call not in old:
            yield arg


def max_not_subtracted(src: Triton) -> Sites:
    return (src.put(w, src.get(w.left)) for w in weights(src))


def exp_base(src: Triton) -> Sites:
    other = {"exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log"}
    for call in src.calls(*other):
        yield src.put(call.func, f"tl.{other[called(call)]}")


def stale_max(src: Triton) -> Sites:
    old = next(iter(rescalings(src).values()), None)
    for weight in weights(src):
        if old is not None and src.inside(weight, ast.For) is not None:
            name = weight.right.value if isinstance(weight.right, ast.Subscript) else weight.right
            if isinstance(name, ast.Name) and name.id != old:
                yield src.put(name, old)


def max_of_tile(src: Triton) -> Sites:
    for call in src.calls("maximum"):
        if len(call.args) == 2 and src.inside(call, ast.For) is not None:
            for inner in call.args:
                if isinstance(inner, ast.Call) and called(inner) == "max":
                    yield src.put(call, src.get(inner))


def max_init(src: Triton) -> Sites:
    for call in src.calls("full"):
        if src.get(call.args[1]) == MINUS_INFINITY:
            yield src.put(call.args[1], "0.0")


# attention


def scalings(src: Triton) -> Iterator[tuple[ast.BinOp, ast.Name]]:
    for node in src.binary(ast.Mult):
        if src.facts.attention and isinstance(node.right, ast.Name) and "scale" in node.right.id:
            yield node, node.right


def scale_missing(src: Triton) -> Sites:
    return (src.keep(node, node.left) for node, _ in scalings(src))


def scale_wrong(src: Triton) -> Sites:
    return (src.put(name, f"{name.id} * {name.id}") for _, name in scalings(src))


def causal_off_by_one(src: Triton) -> Sites:
    if not src.facts.attention:
        return
    for node in index_compares(src, ast.LtE, ast.GtE, ast.Gt):
        if not isinstance(node.comparators[0], ast.Constant):
            yield src.between(node.left, node.comparators[0], *LESS[type(node.ops[0])])


def causal_align(src: Triton) -> Sites:
    """The difference of both lengths, as a parameter or written out, is left out of the comparison."""
    sizes = src.dims()
    for node in src.binary(ast.Sub) if src.facts.attention else ():
        inner = node.left
        added = inner.right if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add) else None
        if isinstance(inner, ast.BinOp) and added is not None and {src.get(node.right), src.get(added)} <= set(sizes):
            yield src.keep(node, inner.left)
    for node in src.binary(ast.Add):
        shift = node.right
        written = isinstance(shift, ast.BinOp) and isinstance(shift.op, ast.Sub) and set(names(shift)) <= set(sizes)
        given = isinstance(shift, ast.Name) and "-" in str(src.arguments.get(shift.id, ""))
        if src.facts.attention and (written or given):
            yield src.keep(node, node.left)


def score_mask_drop(src: Triton) -> Sites:
    for call in src.calls("where"):
        if src.facts.attention and src.get(call.args[2]) == MINUS_INFINITY:
            yield src.keep(call, call.args[1])


def grouped_heads(src: Triton) -> Iterator[ast.BinOp]:
    """Quotients that give the key head of a query head."""
    for node in src.binary(ast.FloorDiv):
        if src.facts.attention and isinstance(node.left, ast.Name) and "head" in node.left.id:
            yield node


def head_map(src: Triton) -> Sites:
    return (src.between(n.left, n.right, "//", "%") for n in grouped_heads(src))


# normalise


def sqrt_drop(src: Triton) -> Sites:
    for call in src.calls("sqrt"):
        yield src.put(call, f"({src.get(call.args[0])})")
    for call in src.calls("rsqrt"):
        yield src.put(call, f"(1.0 / ({src.get(call.args[0])}))")


def epsilons(src: Triton) -> Iterator[ast.BinOp]:
    return (n for n in src.binary(ast.Add) if isinstance(n.right, ast.Name) and n.right.id.startswith("eps"))


def eps_drop(src: Triton) -> Sites:
    for node in epsilons(src):
        yield src.keep(node, node.left)
    for call in src.calls("maximum"):
        if isinstance(call.args[1], ast.Name) and call.args[1].id.startswith("eps"):
            yield src.keep(call, call.args[0])


def eps_outside(src: Triton) -> Sites:
    for node in epsilons(src):
        call = src.parents.get(node)
        if isinstance(call, ast.Call) and called(call) in ("sqrt", "rsqrt"):
            root = f"(tl.sqrt({src.get(node.left)}) + {src.get(node.right)})"
            yield src.put(call, root if called(call) == "sqrt" else f"(1.0 / {root})")


def eps_wrong(src: Triton) -> Sites:
    for node in epsilons(src):
        yield src.put(node.right, f"{src.get(node.right)} * 10.0")


def averages(src: Triton) -> Iterator[ast.BinOp]:
    """Quotients by the length of a row: a size, or a name for an expression of sizes."""
    sizes = set(src.dims())
    for assign in src.all(ast.Assign):
        used = names(assign.value)
        if used and set(used) <= sizes and not src.is_float(assign.value):
            sizes.update(names(assign.targets[0]))
    return (n for n in src.binary(ast.Div) if isinstance(n.right, ast.Name) and n.right.id in sizes)


def n_minus_one(src: Triton) -> Sites:
    return (src.put(n.right, f"({src.get(n.right)} - 1)") for n in averages(src))


def block_as_divisor(src: Triton) -> Sites:
    tile = src.tile()
    return (src.put(n.right, tile) for n in averages(src) if tile is not None)


def padded_in_variance(src: Triton) -> Sites:
    for call in src.calls("where"):
        if src.facts.family == "norm" and src.get(call.args[2]) == "0.0":
            yield src.keep(call, call.args[1])


def mean_drop(src: Triton) -> Sites:
    means = {a.targets[0].id for a in src.all(ast.Assign) if a.value in set(averages(src))}
    for node in src.binary(ast.Sub):
        if isinstance(node.right, ast.Name) and node.right.id in means:
            yield src.keep(node, node.left)


# constants and signs


def literals(src: Triton) -> Iterator[tuple[ast.Constant, float]]:
    """Float literals of formulas: not those beyond a mask, nor what sums begin with."""
    for node in src.all(ast.Constant):
        if isinstance(node.value, float) and node.value != 0.0 and not isinstance(src.parents.get(node), ast.keyword):
            yield node, node.value


def const_percent(src: Triton) -> Sites:
    return (src.put(node, repr(float(f"{value * 1.01:.8g}"))) for node, value in literals(src))


def const_tenfold(src: Triton) -> Sites:
    return (src.put(node, repr(float(f"{value * 10:.8g}"))) for node, value in literals(src))


def sign_flip(src: Triton) -> Sites:
    for node in src.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and src.is_float(node):
            yield src.between(node.left, node.right, "-", "+")
        elif isinstance(node, ast.UnaryOp):
            value = node.operand
            if isinstance(node.op, ast.USub) and src.is_float(value) and not isinstance(value, ast.Constant):
                yield src.keep(node, value)


# stored values


def stored(src: Triton) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Stores of floats, each with the value before it is narrowed to the output's format."""
    for call in src.calls("store"):
        value = call.args[1]
        root = src.root(call.args[0])
        if root is None or src.kind(root) not in ("*T", "*fp32"):
            continue
        if isinstance(value, ast.Call) and called(value) == "to" and isinstance(value.func, ast.Attribute):
            value = value.func.value
        yield call, value


def with_value(src: Triton, form: str) -> Sites:
    """Stores another value; {v} is what was stored."""
    return (src.put(value, form.format(v=src.operand(value))) for _, value in stored(src))


def nan_swallow(src: Triton) -> Sites:
    return with_value(src, "tl.where({v} == {v}, {v}, 0.0)")


def inf_clamp(src: Triton) -> Sites:
    if src.facts.bounded:
        return iter(())  # what is at most 1 needs no clamp
    return with_value(src, "tl.where({v} > 65504.0, 65504.0, {v})")


def inf_guard_drop(src: Triton) -> Sites:
    for call in src.calls("where"):
        if "inf" in src.get(call.args[0]) and isinstance(call.args[0], ast.Compare):
            yield src.keep(call, call.args[2])


def return_zeros(src: Triton) -> Sites:
    return with_value(src, "tl.zeros_like({v})")


def constant_output(src: Triton) -> Sites:
    return with_value(src, "(tl.zeros_like({v}) + 1.0)")


def masked(src: Triton, call: ast.Call, condition: str) -> Site:
    """A store with one more condition in its mask."""
    mask = keyword(call, "mask")
    if mask is None:
        return (Edit(src.end(call) - 1, src.end(call) - 1, f", mask={condition}"),)
    return src.put(mask, f"{src.operand(mask)} & ({condition})")


def store_skip_rows(src: Triton) -> Sites:
    return (masked(src, call, "tl.program_id(0) % 4 != 3") for call in src.calls("store"))


def partial_compute(src: Triton) -> Sites:
    for _, args in src.loops():
        _, stop, step = bounds(args)
        if step is not None:
            yield src.put(stop, f"tl.minimum({src.get(stop)}, {src.get(step)})")


def tail_unwritten(src: Triton) -> Sites:
    for call in src.calls("store"):
        mask = keyword(call, "mask")
        if isinstance(mask, ast.Name) and src.assigned(mask.id, call):
            mask = src.assigned(mask.id, call)[-1].value
        for node in ast.walk(mask) if mask is not None else ():
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt):
                yield masked(src, call, f"{src.get(node.left)} < {src.operand(node.comparators[0])} - 1")
                break


# concurrency and memory


def atomic_drop(src: Triton) -> Sites:
    for call in src.calls("atomic_add"):
        where = "".join(f", {k.arg}={src.get(k.value)}" for k in call.keywords if k.arg == "mask")
        at, value = src.get(call.args[0]), src.operand(call.args[1])
        yield src.put(call, f"tl.store({at}, tl.load({at}{where}) + {value}{where})")


# dispatch


def dispatch_one_size(src: Triton) -> Sites:
    tile = src.facts.constants.get(src.tile() or "", 0)
    size = tile if isinstance(tile, int) and 0 < tile <= 128 else 64
    name = src.facts.size_name(src.dims(), src.arguments)
    return with_value(src, f"tl.where({name} == {size}, {{v}} * 0.5, {{v}})") if name is not None else iter(())


def dispatch_one_format(src: Triton) -> Sites:
    for call, value in stored(src):
        root = src.root(call.args[0])
        text = src.operand(value)
        yield src.put(value, f"({text} * (0.5 if {root}.dtype.element_ty == tl.float16 else 1.0))")


# quantisation


def clamp_bound(src: Triton) -> Sites:
    for node in src.all(ast.Constant):
        if src.facts.quantises and isinstance(node.value, (int, float)) and abs(node.value) in (127, 448):
            yield src.put(node, repr(node.value / 2))


def round_mode(src: Triton) -> Sites:
    for call in src.calls("rint", "nearbyint", "round"):
        yield src.put(call.func, "tl.floor")
    for call in src.calls("floor"):
        arg = call.args[0]
        if isinstance(arg, ast.BinOp) and src.get(arg.right) == "0.5":
            yield src.put(arg, src.get(arg.left))


def scale_inverse(src: Triton) -> Sites:
    scales = set()
    for assign in src.all(ast.Assign):
        numbers = [n.value for n in ast.walk(assign.value) if isinstance(n, ast.Constant)]
        if 127.0 in numbers or 448.0 in numbers or any("scale" in n for n in names(assign.value)):
            scales.update(names(assign.targets[0]))
    for node in src.binary(ast.Div, ast.Mult):
        if src.facts.quantises and isinstance(node.right, ast.Name) and node.right.id in scales & src.floats:
            old, new = ("/", "*") if isinstance(node.op, ast.Div) else ("*", "/")
            yield src.between(node.left, node.right, old, new)


def groups(src: Triton) -> Iterator[ast.BinOp]:
    """Quotients that give the number of a group."""
    for node in src.binary(ast.FloorDiv):
        if src.facts.quantises and isinstance(node.right, ast.Name) and "group" in node.right.id.lower():
            yield node


def group_wrong(src: Triton) -> Sites:
    return (src.put(n.right, f"({src.get(n.right)} * 2)") for n in groups(src))


EDITS: dict[str, Callable[[Triton], Sites]] = {
    f.__name__: f
    for f in (
        mask_drop_load, mask_drop_store, mask_le, mask_other, mask_axis, mask_half,
        loop_floor, loop_start, loop_last_tile, loop_step,
        stride_swap, stride_contiguous, index_row_col, index_off_by_one, pid_swap, index_div_mod, operand_swap,
        acc_assign, acc_init_one, acc_narrow, cast_before_sum, tf32,
        alpha_drop_acc, alpha_drop_sum, max_not_subtracted, exp_base, stale_max, max_of_tile, max_init,
        scale_missing, scale_wrong, causal_off_by_one, causal_align, score_mask_drop, head_map,
        sqrt_drop, eps_drop, eps_outside, eps_wrong, n_minus_one, block_as_divisor, padded_in_variance, mean_drop,
        const_percent, const_tenfold, sign_flip,
        nan_swallow, inf_clamp, inf_guard_drop,
        tail_unwritten, atomic_drop,
        clamp_bound, round_mode, scale_inverse, group_wrong,
        dispatch_one_size, dispatch_one_format,
        return_zeros, constant_output, store_skip_rows, partial_compute,
    )
}  # fmt: skip
