"""Finds the CUDA toolkit's headers, or says that there are none.

CUDA_HOME (--repo_env=CUDA_HOME=...) names the toolkit, else /usr/local/cuda. Without cuda.h in
it the repository is a stub: `available` is False, and //runtime/cuda is left out of the build.
"""

def _cuda_headers_impl(ctx):
    home = ctx.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    include = ctx.path(home + "/include")
    found = ctx.path(home + "/include/cuda.h").exists
    if found:
        ctx.symlink(include, "include")
    ctx.file("BUILD", """package(default_visibility = ["//visibility:public"])
cc_library(name = "headers", hdrs = %s, includes = %s, defines = ["TESSERA_HAVE_CUDA_HEADERS=%d"])
""" % (["include"] if found else [], ["include"] if found else [], 1 if found else 0))
    ctx.file("available.bzl", "CUDA_AVAILABLE = %s\n" % found)

cuda_headers = repository_rule(
    implementation = _cuda_headers_impl,
    environ = ["CUDA_HOME"],
    local = True,
)
