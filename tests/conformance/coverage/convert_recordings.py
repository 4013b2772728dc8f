"""Turns recorded launches into the signatures that `coverage --signatures` reads.

usage: convert_recordings.py RECORDINGS [PROJECT...] > signatures.jsonl

RECORDINGS is a folder with cases.jsonl or cases.jsonl.gz (one launch a line, parameters as in case.json) and the texts of
the modules in shard*.zip under their hashes, read by the recorder's corpus.py, which lies in the same folder. Launches
without data count too: a signature needs none. Launches with equal signatures become one line.

The output has two kinds of lines:
  {"module": hash, "text": source}
  {"project", "path", "functions": [[module, qualified name]...], "source": hash, "job": compile job as protobuf JSON}
"""

import hashlib
import json
import math
import struct
import sys


def real(value):
    """A double in protobuf's JSON."""
    if isinstance(value, dict):
        value = struct.unpack(">d", bytes.fromhex(value["bits"]))[0]
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def constant(value):
    if value is None:
        return {"none": {}}
    if isinstance(value, bool):
        return {"boolean": value}
    if isinstance(value, int):
        return {"unsigned_integer" if value >= 2**63 else "integer": str(value)}
    if isinstance(value, float):
        return {"real": real(value)}
    if isinstance(value, str):
        return {"text": value}
    if "float" in value:
        return {"real": real(value)}
    if "dtype" in value or "torch_dtype" in value:
        return {"dtype": value.get("dtype") or value["torch_dtype"]}
    if "jit" in value:
        return {"function": value["jit"]}
    if "tuple" in value:
        return {"tuple": {"items": [constant(item) for item in value["tuple"]]}}
    raise ValueError("constexpr value %r" % (value,))


def parameter(param):
    kind = param["kind"]
    spec = {"name": param.get("name") or ""}
    if kind == "none":
        spec["constant"] = {"none": {}}
    elif kind == "constexpr":
        spec["constant"] = constant(param.get("value"))
    elif kind == "tuple":
        spec["tuple"] = {"items": [parameter(item) for item in param["items"]]}
    elif kind == "tensordesc":
        spec["tensor_descriptor"] = {
            "element_type": param["base"]["dtype"],
            "block_shape": [str(extent) for extent in param["block_shape"]],
            "nan_padding": param.get("padding") == "nan",
        }
    elif kind in ("tensor", "scalar"):
        ty = param.get("ty") or "*" + param["dtype"]
        if kind == "scalar" and ty == "constexpr":  # an integer that is 1
            spec["type"], spec["equals_one"] = "i32", True
        else:
            spec["type"] = ty
            if "D" in (param.get("attr") or ""):
                spec["divisibility"] = 16
    else:
        raise ValueError("parameter kind %r" % kind)
    return spec


def options(recorded):
    result = {name: recorded[name] for name in ("num_warps", "num_stages", "num_ctas", "maxnreg") if recorded.get(name)}
    precision = recorded.get("default_dot_input_precision")
    if precision and precision != "tf32":
        result["extra"] = {"default_dot_input_precision": precision}
    return result


def main():
    folder, projects = sys.argv[1], sys.argv[2:]
    sys.path.insert(0, folder)
    from corpus import Corpus

    corpus = Corpus(folder)
    texts, seen, unusable = set(), set(), 0
    for case in corpus.cases:
        if projects and case.get("project") not in projects:
            continue
        if (case.get("reason") or "").startswith("launch raised"):  # Triton refused it as well
            continue
        source = case.get("module")
        if not source or not corpus.has(source) or "params" not in case:
            unusable += 1
            continue
        try:
            job = {
                "kernel": case["entry"],
                "parameters": [parameter(param) for param in case["params"]],
                "options": options(case.get("options") or {}),
            }
        except (ValueError, KeyError) as error:
            unusable += 1
            print("%s: %s" % (case.get("kernel"), error), file=sys.stderr)
            continue
        key = hashlib.sha256(json.dumps([source, job], sort_keys=True).encode()).digest()
        if key in seen:
            continue
        seen.add(key)
        if source not in texts:
            texts.add(source)
            print(json.dumps({"module": source, "text": corpus.blob(source).decode("utf-8")}))
        functions = [[module, name] for _, module, name in case.get("functions") or []]
        print(json.dumps({"project": case["project"], "path": case.get("file") or "", "functions": functions,
                          "entry": [case.get("py_module") or "", case.get("qualname") or case["entry"]],
                          "source": source, "job": job}))
    print("%d signatures, %d modules, %d launches without a usable one" % (len(seen), len(texts), unusable), file=sys.stderr)


if __name__ == "__main__":
    main()
