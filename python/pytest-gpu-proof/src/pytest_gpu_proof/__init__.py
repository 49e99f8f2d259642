"""pytest-gpu-proof: a pytest run with a GPU, signed, for a CI without one to verify.

The plugin writes down what happened. The binary gpu-proof, which comes with gpuemu, hashes the code, signs and
verifies: nothing of that is done in Python, and the process that runs the tests never sees a key.
"""

from ._version import __version__

__all__ = ["__version__"]
