"""What messages say of exceptions in the user's code, in one sentence.

The guard of this package uses it, and so does the engine's worker, in whose file it stands in front of worker.py: it
imports nothing but the standard library.
"""

import os
import sys
import traceback

MAX_MESSAGE = 500  # characters of the text of an exception in a message

# Modules that are installed under their own names. What others are called is not known here.
INSTALLED = ("numpy", "ml_dtypes", "torch", "jax", "tensorflow", "triton")


def describe(exc: BaseException) -> str:
    """Type and text of an exception, cut to what a message can bear.

    The first line of a long text says what happened; those of torch go on with advice. One that ends in a colon only
    announces it: it is in the next line or, where code is quoted with a caret below it, after the caret.
    """
    lines = "".join(traceback.format_exception_only(type(exc), exc)).rstrip().splitlines()
    at = 0
    if isinstance(exc, SyntaxError):  # begins with its place, all of it indented
        at = next((i for i, line in enumerate(lines) if not line.startswith(" ")), 0)
    text, rest = lines[at].strip(), [line.strip() for line in lines[at + 1 :] if line.strip()]
    if text.endswith(":") and rest:
        carets = [i for i, line in enumerate(rest[:-1]) if not line.strip("^~")]
        text += " " + rest[carets[-1] + 1 if carets else 0]
    if isinstance(exc, SyntaxError) and exc.filename:
        text += f" ({os.path.basename(exc.filename)}, line {exc.lineno})"
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "..."


def missing_package(what: str, exc: ModuleNotFoundError) -> "tuple[str, str]":
    """The message and the next step where code needs a package that is not installed."""
    package = str(exc.name).partition(".")[0]
    step = "install it for this interpreter"
    if package in INSTALLED:
        step = f"{sys.executable} -m pip install {package}"
    return f"{what} needs the package {package}, which {sys.executable} does not have", step
