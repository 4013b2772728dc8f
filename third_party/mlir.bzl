"""Compile options and code generators for files that include MLIR headers."""

MLIR_COPTS = [
    "-D_GNU_SOURCE",
    "-D__STDC_CONSTANT_MACROS",
    "-D__STDC_FORMAT_MACROS",
    "-D__STDC_LIMIT_MACROS",
    "-fno-exceptions",
    "-Wno-unused-parameter",
    "-Wno-comment",
]

_TBLGEN = "/usr/lib/llvm-19/bin/mlir-tblgen"

def td_gen(name, td, outs, deps = []):
    """Runs mlir-tblgen over `td`; outs: list of (mlir-tblgen flags, output file)."""
    cmds = [
        "%s %s -I/usr/lib/llvm-19/include -I. $(location %s) -o $(location %s)" % (_TBLGEN, flags, td, out)
        for flags, out in outs
    ]
    native.genrule(name = name, srcs = [td] + deps, outs = [o for _, o in outs], cmd = " && ".join(cmds))

def filecheck_tests(srcs, tool = "//compiler/tools:tessera-opt", data = []):
    """One sh_test per textual IR file. Its `// RUN:` lines are shell, with %s the file and tools on PATH."""
    for src in srcs:
        native.sh_test(
            name = src.rsplit("/", 1)[-1].replace(".mlir", "") + "_mlir_test",
            size = "small",
            srcs = ["//tests/support:filecheck_test.sh"],
            args = ["$(location %s)" % src, "$(location %s)" % tool],
            data = [src, tool] + data,
        )
