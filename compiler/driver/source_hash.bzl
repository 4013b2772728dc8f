"""A header with one hash over all source files of some libraries and of what they depend on."""

_SourcesInfo = provider(fields = ["files"])

def _collect_impl(target, ctx):
    files = []
    if not target.label.workspace_name:  # ours; installed libraries are known by their version
        for attribute in ["srcs", "hdrs", "textual_hdrs"]:
            files += getattr(ctx.rule.files, attribute, [])
    deps = [dep[_SourcesInfo].files for dep in getattr(ctx.rule.attr, "deps", []) if _SourcesInfo in dep]
    return [_SourcesInfo(files = depset(files, transitive = deps))]

_collect = aspect(implementation = _collect_impl, attr_aspects = ["deps"])

def _source_hash_impl(ctx):
    files = depset(transitive = [dep[_SourcesInfo].files for dep in ctx.attr.deps]).to_list()
    listing = ctx.actions.declare_file(ctx.label.name + ".list")
    # Sorted by their name in the workspace, so that the order of targets and the output folder do not matter.
    lines = {f.short_path: f.path for f in files}
    ctx.actions.write(listing, "".join(["%s %s\n" % (name, lines[name]) for name in sorted(lines)]))
    ctx.actions.run_shell(
        inputs = files + [listing],
        outputs = [ctx.outputs.out],
        command = """
set -e
hash=$(while read -r name path; do echo "$name $(sha256sum < "$path")"; done < "$1" | sha256sum | cut -c1-32)
printf '// Generated.\\nnamespace tessera::compiler {\\nconstexpr char kSourceHash[] = "%%s";\\n}\\n' "$hash" > "$2"
""".replace("%%", "%"),
        arguments = [listing.path, ctx.outputs.out.path],
    )

source_hash = rule(
    implementation = _source_hash_impl,
    attrs = {
        "deps": attr.label_list(aspects = [_collect]),
        "out": attr.output(),
    },
)
