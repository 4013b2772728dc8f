"""Writes kernel files as C++ string constants: linear.py becomes kLinearSource.

usage: embed_sources.py OUT FILE.py...
"""
import os
import sys

with open(sys.argv[1], "w", encoding="utf-8") as out:
    for path in sys.argv[2:]:
        name = os.path.splitext(os.path.basename(path))[0].capitalize()
        with open(path, encoding="utf-8") as source:
            out.write('constexpr char k%sSource[] = R"kernel(%s)kernel";\n' % (name, source.read()))
