"""C++ code for .proto files by Debian's protoc and grpc_cpp_plugin."""

def cc_proto(name, srcs, deps = [], proto_deps = [], grpc = False):
    """A cc_library of `srcs`; `proto_deps` are filegroups of the .proto files they import."""
    exts = [".pb.h", ".pb.cc"] + ([".grpc.pb.h", ".grpc.pb.cc"] if grpc else [])
    bases = [s[:-len(".proto")] for s in srcs]
    outs = [b + e for b in bases for e in exts]
    plugin = "--grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin " if grpc else ""
    native.genrule(
        name = name + "_gen",
        srcs = srcs + proto_deps,
        outs = outs,
        cmd = "/usr/bin/protoc -I. --cpp_out=$(GENDIR) " + plugin + " ".join(["$(location %s)" % s for s in srcs]),
    )
    native.filegroup(name = name + "_srcs", srcs = srcs + proto_deps, visibility = ["//visibility:public"])
    native.cc_library(
        name = name,
        srcs = [o for o in outs if o.endswith(".cc")],
        hdrs = [o for o in outs if o.endswith(".h")],
        copts = ["-Wno-unused-parameter", "-Wno-array-bounds"],
        deps = ["//third_party:grpc" if grpc else "//third_party:protobuf"] + deps,
        visibility = ["//visibility:public"],
    )
