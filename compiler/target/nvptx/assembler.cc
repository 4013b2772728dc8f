#include "compiler/target/nvptx/assembler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/target/nvptx/cuda_toolkit.h"

extern char** environ;

namespace tessera::compiler {
namespace {

// The part of nvJitLink.h that we use.
struct NvJitLink {
  using Handle = void*;
  int (*create)(Handle*, uint32_t, const char* const*) = nullptr;
  int (*destroy)(Handle*) = nullptr;
  int (*add_data)(Handle, int, const void*, size_t, const char*) = nullptr;
  int (*complete)(Handle) = nullptr;
  int (*cubin_size)(Handle, size_t*) = nullptr;
  int (*cubin)(Handle, void*) = nullptr;
  int (*error_log_size)(Handle, size_t*) = nullptr;
  int (*error_log)(Handle, char*) = nullptr;
  int (*info_log_size)(Handle, size_t*) = nullptr;
  int (*info_log)(Handle, char*) = nullptr;
  int (*version)(unsigned*, unsigned*) = nullptr;
  std::string name;
};
constexpr int kInputPtx = 2;

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *reinterpret_cast<void**>(function) = dlsym(library, name);
  return *function != nullptr;
}

const NvJitLink* LoadNvJitLink() {
  static const NvJitLink* loaded = []() -> const NvJitLink* {
    std::vector<std::string> paths;
    if (const char* path = std::getenv("TESSERA_NVJITLINK"); path && *path) {
      if (absl::string_view(path) == "none") return nullptr;  // use ptxas
      paths.push_back(path);
    }
    for (const char* version : {"13", "12"}) paths.push_back(absl::StrCat("libnvJitLink.so.", version));
    for (const std::string& folder : CudaToolkits())
      for (const char* version : {"13", "12"})
        for (const char* lib : {"lib64", "lib", "targets/x86_64-linux/lib"}) paths.push_back(absl::StrCat(folder, "/", lib, "/libnvJitLink.so.", version));
    for (const std::string& path : paths) {
      void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!library) continue;
      auto* api = new NvJitLink;
      if (Find(library, "nvJitLinkCreate", &api->create) && Find(library, "nvJitLinkDestroy", &api->destroy) &&
          Find(library, "nvJitLinkAddData", &api->add_data) && Find(library, "nvJitLinkComplete", &api->complete) &&
          Find(library, "nvJitLinkGetLinkedCubinSize", &api->cubin_size) && Find(library, "nvJitLinkGetLinkedCubin", &api->cubin) &&
          Find(library, "nvJitLinkGetErrorLogSize", &api->error_log_size) && Find(library, "nvJitLinkGetErrorLog", &api->error_log) &&
          Find(library, "nvJitLinkGetInfoLogSize", &api->info_log_size) && Find(library, "nvJitLinkGetInfoLog", &api->info_log)) {
        unsigned major = 0, minor = 0;
        if (Find(library, "nvJitLinkVersion", &api->version)) api->version(&major, &minor);
        api->name = absl::StrCat("nvJitLink ", major, ".", minor);
        return api;
      }
      delete api;
      dlclose(library);
    }
    return nullptr;
  }();
  return loaded;
}

// A program of the toolkit, or of the PATH; empty: there is none.
std::string FindProgram(absl::string_view name) {
  std::vector<std::string> paths;
  for (const std::string& folder : CudaToolkits()) paths.push_back(absl::StrCat(folder, "/bin/", name));
  if (const char* search = std::getenv("PATH"))
    for (absl::string_view folder : absl::StrSplit(search, ':')) paths.push_back(absl::StrCat(folder, "/", name));
  for (const std::string& path : paths)
    if (access(path.c_str(), X_OK) == 0) return path;
  return "";
}

std::string FindPtxas() {
  if (const char* path = std::getenv("TESSERA_PTXAS"); path && *path) return path;
  return FindProgram("ptxas");
}

std::string LogText(int (*size)(void*, size_t*), int (*get)(void*, char*), void* handle) {
  size_t bytes = 0;
  if (size(handle, &bytes) != 0 || bytes == 0) return "";
  std::string text(bytes, '\0');
  get(handle, text.data());
  while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
  return text;
}

absl::Status Refused(const GpuArch& arch, const std::string& assembler, const std::string& log) {
  if (absl::StrContains(log, "Unsupported") || absl::StrContains(log, "is not defined for option 'gpu-name'"))
    return absl::FailedPreconditionError(absl::StrCat(assembler, " does not know ", arch.name, ": ", log));
  return absl::InternalError(absl::StrCat("assembling PTX for ", arch.name, " with ", assembler, ": ", log));
}

absl::StatusOr<Cubin> AssembleInProcess(const NvJitLink& api, const std::string& ptx, const GpuArch& arch) {
  const std::string target = absl::StrCat("-arch=", arch.name);
  const char* options[] = {target.c_str(), "-O3", "-lineinfo", "-verbose"};
  void* handle = nullptr;
  Cubin result;
  result.assembler = api.name;
  if (int code = api.create(&handle, std::size(options), options)) return Refused(arch, api.name, absl::StrCat("Unsupported options, code ", code));
  int code = api.add_data(handle, kInputPtx, ptx.c_str(), ptx.size() + 1, "kernel.ptx");
  if (code == 0) code = api.complete(handle);
  size_t bytes = 0;
  if (code == 0) code = api.cubin_size(handle, &bytes);
  if (code == 0) {
    result.code.resize(bytes);
    code = api.cubin(handle, result.code.data());
  }
  result.log = LogText(api.info_log_size, api.info_log, handle);
  std::string errors = code == 0 ? "" : absl::StrCat("code ", code, ": ", LogText(api.error_log_size, api.error_log, handle));
  api.destroy(&handle);
  if (code != 0) return Refused(arch, api.name, errors);
  return result;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A folder of our own that goes with its files.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* parent = std::getenv("TMPDIR");
    path_ = absl::StrCat(parent && *parent ? parent : "/tmp", "/tessera-gpu-XXXXXX");
    if (!mkdtemp(path_.data())) path_.clear();
  }
  ~TemporaryFolder() {
    for (const std::string& file : files_) unlink(file.c_str());
    if (!path_.empty()) rmdir(path_.c_str());
  }
  bool ok() const { return !path_.empty(); }
  std::string File(absl::string_view name) {
    files_.push_back(absl::StrCat(path_, "/", name));
    return files_.back();
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

// Runs a program with its output, errors too, to the file `output`; whether it ended well.
bool RunProgram(const std::vector<std::string>& words, const std::string& output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t child = 0;
  int status = posix_spawn(&child, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (status != 0) return false;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

absl::StatusOr<Cubin> AssembleByProgram(const std::string& ptxas, const std::string& ptx, const GpuArch& arch) {
  TemporaryFolder folder;
  if (!folder.ok()) return absl::UnavailableError(absl::StrCat("no temporary folder for ", ptxas, ": ", std::strerror(errno)));
  const std::string input = folder.File("kernel.ptx"), output = folder.File("kernel.cubin"), log = folder.File("log");
  std::ofstream(input, std::ios::binary) << ptx;
  Cubin result;
  result.assembler = ptxas;
  const bool done = RunProgram({ptxas, absl::StrCat("-arch=", arch.name), "-O3", "-lineinfo", "-v", input, "-o", output}, log);
  result.log = ReadFile(log);
  if (!done) return Refused(arch, ptxas, result.log);
  result.code = ReadFile(output);
  return result;
}

// "Used 32 registers", "8 bytes stack frame, 4 bytes spill stores".
int NumberBefore(const std::string& log, const std::string& words) {
  const size_t at = log.find(words);
  if (at == std::string::npos) return 0;
  size_t begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(log[begin - 1]))) --begin;
  return std::atoi(log.substr(begin, at - begin).c_str());
}

}  // namespace

absl::StatusOr<Cubin> Assemble(const std::string& ptx, const std::string& entry, const GpuArch& arch) {
  absl::StatusOr<Cubin> cubin = absl::FailedPreconditionError("");
  if (const NvJitLink* api = LoadNvJitLink()) {
    cubin = AssembleInProcess(*api, ptx, arch);
    // An older library may not know the GPU; ptxas may.
    if (absl::IsFailedPrecondition(cubin.status()))
      if (std::string ptxas = FindPtxas(); !ptxas.empty()) cubin = AssembleByProgram(ptxas, ptx, arch);
  } else if (std::string ptxas = FindPtxas(); !ptxas.empty()) {
    cubin = AssembleByProgram(ptxas, ptx, arch);
  } else {
    return absl::FailedPreconditionError(WhyNoAssembler());
  }
  if (!cubin.ok()) return cubin.status();
  const size_t at = cubin->log.find(entry);
  const std::string log = at == std::string::npos ? cubin->log : cubin->log.substr(at);
  cubin->registers = NumberBefore(log, " registers");
  cubin->local_bytes = NumberBefore(log, " bytes stack frame");
  cubin->spill_bytes = NumberBefore(log, " bytes spill stores");
  return cubin;
}

absl::StatusOr<std::string> Disassemble(const std::string& cubin) {
  std::vector<std::string> words;
  if (std::string program = FindProgram("nvdisasm"); !program.empty()) words = {program, "-c"};
  else if (program = FindProgram("cuobjdump"); !program.empty()) words = {program, "-sass"};
  else return absl::FailedPreconditionError("no disassembler for NVIDIA GPUs: neither nvdisasm nor cuobjdump is in a CUDA toolkit or on the PATH");
  TemporaryFolder folder;
  if (!folder.ok()) return absl::UnavailableError(absl::StrCat("no temporary folder for ", words[0], ": ", std::strerror(errno)));
  const std::string input = folder.File("kernel.cubin"), output = folder.File("sass");
  std::ofstream(input, std::ios::binary) << cubin;
  words.push_back(input);
  const bool done = RunProgram(words, output);
  std::string text = ReadFile(output);
  return done ? absl::StatusOr<std::string>(text) : absl::InternalError(absl::StrCat(words[0], ": ", text));
}

void WarmUpAssembler() {
  if (!LoadNvJitLink()) return;
  absl::StatusOr<GpuArch> arch = ParseGpuArch("sm_80");
  (void)Assemble(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry warm_up()\n{\nret;\n}\n", "warm_up", *arch);
}

std::string WhyNoAssembler() {
  if (LoadNvJitLink() || !FindPtxas().empty()) return "";
  return absl::StrCat("no assembler for NVIDIA GPUs: neither libnvJitLink.so.13 (or .12) nor ptxas is on the search paths or below ", absl::StrJoin(CudaToolkits(), ", "),
                      "; install a CUDA toolkit or set CUDA_HOME");
}

}  // namespace tessera::compiler
