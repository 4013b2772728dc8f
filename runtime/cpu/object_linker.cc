#include "runtime/cpu/object_linker.h"

#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

extern "C" void sincos(double, double*, double*);
extern "C" void sincosf(float, float*, float*);

namespace tessera::runtime {
namespace {

namespace orc = llvm::orc;

struct HostSymbol {
  const char* name;
  void* address;
};

using Unary = double (*)(double);
using UnaryF = float (*)(float);
using Binary = double (*)(double, double);
using BinaryF = float (*)(float, float);

#define TESSERA_UNARY(name) \
  {#name, reinterpret_cast<void*>(static_cast<Unary>(::name))}, {#name "f", reinterpret_cast<void*>(static_cast<UnaryF>(::name##f))}
#define TESSERA_BINARY(name) \
  {#name, reinterpret_cast<void*>(static_cast<Binary>(::name))}, {#name "f", reinterpret_cast<void*>(static_cast<BinaryF>(::name##f))}

// All that a kernel may call. What code generation emits itself or LLVM makes of it, nothing more.
const HostSymbol kHostSymbols[] = {
    TESSERA_UNARY(acos), TESSERA_UNARY(acosh), TESSERA_UNARY(asin), TESSERA_UNARY(asinh), TESSERA_UNARY(atan),
    TESSERA_UNARY(atanh), TESSERA_UNARY(cbrt), TESSERA_UNARY(ceil), TESSERA_UNARY(cos), TESSERA_UNARY(cosh),
    TESSERA_UNARY(erf), TESSERA_UNARY(erfc), TESSERA_UNARY(exp), TESSERA_UNARY(exp2), TESSERA_UNARY(exp10),
    TESSERA_UNARY(expm1), TESSERA_UNARY(floor), TESSERA_UNARY(j0), TESSERA_UNARY(j1), TESSERA_UNARY(lgamma),
    TESSERA_UNARY(log), TESSERA_UNARY(log10), TESSERA_UNARY(log1p), TESSERA_UNARY(log2), TESSERA_UNARY(logb),
    TESSERA_UNARY(nearbyint), TESSERA_UNARY(rint), TESSERA_UNARY(round), TESSERA_UNARY(roundeven), TESSERA_UNARY(sin),
    TESSERA_UNARY(sinh), TESSERA_UNARY(sqrt), TESSERA_UNARY(tan), TESSERA_UNARY(tanh), TESSERA_UNARY(tgamma),
    TESSERA_UNARY(trunc), TESSERA_UNARY(y0), TESSERA_UNARY(y1), TESSERA_BINARY(atan2), TESSERA_BINARY(copysign),
    TESSERA_BINARY(fdim), TESSERA_BINARY(fmax), TESSERA_BINARY(fmin), TESSERA_BINARY(fmod), TESSERA_BINARY(hypot),
    TESSERA_BINARY(nextafter), TESSERA_BINARY(pow), TESSERA_BINARY(remainder),
    {"fma", reinterpret_cast<void*>(static_cast<double (*)(double, double, double)>(::fma))},
    {"fmaf", reinterpret_cast<void*>(static_cast<float (*)(float, float, float)>(::fmaf))},
    {"ilogb", reinterpret_cast<void*>(static_cast<int (*)(double)>(::ilogb))},
    {"ilogbf", reinterpret_cast<void*>(static_cast<int (*)(float)>(::ilogbf))},
    {"ldexp", reinterpret_cast<void*>(static_cast<double (*)(double, int)>(::ldexp))},
    {"ldexpf", reinterpret_cast<void*>(static_cast<float (*)(float, int)>(::ldexpf))},
    {"sincos", reinterpret_cast<void*>(::sincos)},
    {"sincosf", reinterpret_cast<void*>(::sincosf)},
    {"memcpy", reinterpret_cast<void*>(::memcpy)},
    {"memmove", reinterpret_cast<void*>(::memmove)},
    {"memset", reinterpret_cast<void*>(::memset)},
    {"memcmp", reinterpret_cast<void*>(::memcmp)},
    {"bcmp", reinterpret_cast<void*>(::memcmp)},
};

#undef TESSERA_UNARY
#undef TESSERA_BINARY

// An object that is well formed and of this machine; the linker itself would take one of another architecture.
absl::Status CheckObject(llvm::MemoryBufferRef buffer) {
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> object = llvm::object::ObjectFile::createObjectFile(buffer);
  if (!object) return absl::InvalidArgumentError(absl::StrCat("no object file: ", llvm::toString(object.takeError())));
  const llvm::Triple host(llvm::sys::getProcessTriple());
  if (!(*object)->isELF() || !(*object)->isRelocatableObject() || (*object)->getArch() != host.getArch())
    return absl::InvalidArgumentError("no relocatable ELF object of this machine's architecture");
  return absl::OkStatus();
}

}  // namespace

struct ObjectLinker::Session {
  explicit Session(std::unique_ptr<orc::ExecutorProcessControl> control)
      : execution(std::move(control)), layer(execution), host(execution.createBareJITDylib("host")) {
    execution.setErrorReporter([this](llvm::Error error) { absl::StrAppend(&errors, llvm::toString(std::move(error)), "; "); });
  }
  ~Session() { llvm::consumeError(execution.endSession()); }

  std::mutex mutex;
  orc::ExecutionSession execution;
  orc::ObjectLinkingLayer layer;
  orc::JITDylib& host;
  uint64_t linked = 0;  // guarded by mutex; makes names unique
  std::string errors;   // guarded by mutex: linking reports here, on the thread that looks up
};

absl::StatusOr<std::unique_ptr<ObjectLinker>> ObjectLinker::Create() {
  llvm::Expected<std::unique_ptr<orc::SelfExecutorProcessControl>> control = orc::SelfExecutorProcessControl::Create();
  if (!control) return absl::InternalError(absl::StrCat("starting the object linker: ", llvm::toString(control.takeError())));
  auto session = std::make_shared<Session>(std::move(*control));
  orc::SymbolMap symbols;
  for (const HostSymbol& symbol : kHostSymbols)
    symbols[session->execution.intern(symbol.name)] = {orc::ExecutorAddr::fromPtr(symbol.address),
                                                       llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  if (llvm::Error error = session->host.define(orc::absoluteSymbols(std::move(symbols))))
    return absl::InternalError(absl::StrCat("starting the object linker: ", llvm::toString(std::move(error))));
  return std::unique_ptr<ObjectLinker>(new ObjectLinker(std::move(session)));
}

ObjectLinker::ObjectLinker(std::shared_ptr<Session> session) : session_(std::move(session)) {}
ObjectLinker::~ObjectLinker() = default;

absl::StatusOr<LinkedObject> ObjectLinker::Link(absl::string_view object, absl::string_view entry_symbol) {
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()), "kernel");
  if (absl::Status status = CheckObject(*buffer); !status.ok()) return status;

  std::lock_guard<std::mutex> lock(session_->mutex);
  session_->errors.clear();
  orc::JITDylib& space = session_->execution.createBareJITDylib(absl::StrCat("kernel", session_->linked++));
  space.addToLinkOrder(session_->host);
  auto unload = [session = session_, &space](void*) {
    std::lock_guard<std::mutex> unload_lock(session->mutex);
    llvm::consumeError(session->execution.removeJITDylib(space));
  };
  auto fail = [&](llvm::Error error) {
    const std::string text = llvm::toString(std::move(error));
    llvm::consumeError(session_->execution.removeJITDylib(space));
    return absl::FailedPreconditionError(absl::StrCat("linking ", entry_symbol, ": ", session_->errors, text));
  };
  if (llvm::Error error = session_->layer.add(space, std::move(buffer))) return fail(std::move(error));
  llvm::Expected<orc::ExecutorSymbolDef> entry =
      session_->execution.lookup({&space}, llvm::StringRef(entry_symbol.data(), entry_symbol.size()));
  if (!entry) return fail(entry.takeError());
  LinkedObject linked;
  linked.entry = entry->getAddress().toPtr<void*>();
  linked.code = std::shared_ptr<void>(linked.entry, unload);
  return linked;
}

}  // namespace tessera::runtime
