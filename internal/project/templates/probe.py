import importlib.metadata, importlib.util, json, sys

sys.path = [p for p in sys.path if p]  # never a file of the working directory


def version(module, distributions):
    """The version of an installed package without importing it: some take longer than anybody waits."""
    if importlib.util.find_spec(module) is None:
        return None
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return "unknown"


report = {"version": "%d.%d.%d" % sys.version_info[:3], "packages": {}, "broken": {}}
for module, distributions in json.loads(sys.argv[1]).items():
    try:
        found = version(module, distributions)
        if found and module in ("numpy", "ml_dtypes"):  # what gpuemu itself needs must work, too
            found = __import__(module).__version__
    except Exception as exc:
        report["broken"][module] = "%s: %s" % (type(exc).__name__, str(exc).strip().partition("\n")[0])
        continue
    if found:
        report["packages"][module] = found
print(json.dumps(report))
