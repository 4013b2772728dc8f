#include "cache/store/conformance/test_records.h"

#include "absl/strings/str_cat.h"

namespace tessera::cache {

CompileKey TestKey(const std::string& name) {
  storage::CompileJob job;
  job.set_kernel(name);
  job.set_target("interpreter");
  return MakeCompileKey(job, "def " + name, "test");
}

storage::ArtifactRecord TestArtifact(const std::string& name, size_t code_bytes) {
  storage::ArtifactRecord record;
  record.mutable_artifact()->mutable_metadata()->set_kernel(name);
  std::string code;
  while (code.size() < code_bytes) absl::StrAppend(&code, name, code.size(), ";");
  code.resize(code_bytes);
  record.mutable_artifact()->set_code(code);
  return record;
}

}  // namespace tessera::cache
