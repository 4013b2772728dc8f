// What a variant is made of, for people and for warm-up manifests.
#ifndef TESSERA_SERVER_LAUNCH_RECIPE_H_
#define TESSERA_SERVER_LAUNCH_RECIPE_H_

#include <string>

#include "proto/storage/artifacts.pb.h"
#include "proto/tessera/v1/launch.pb.h"
#include "proto/tessera/v1/modules.pb.h"
#include "server/launch/bound_launch.h"

namespace tessera::server {

// A request that compiles the variant which `launch` runs with this configuration and these
// options, on a daemon that knows neither the launch's memory nor any tuning.
api::CompileRequest MakeRecipe(const api::LaunchRequest& launch, const Device& device,
                               const ConfigChoice& choice, const storage::LaunchOptions& options);

// "x=*fp16:16 n=i32:16 one=1 BLOCK=64 num_warps=8": the facts that the code relies on, and every
// option that is stated.
std::string VariantText(const storage::CompileJob& job);

// "x=fp16[512, 1000] n=1000 flag=True": the arguments, without constants.
std::string ShapeText(const google::protobuf::RepeatedPtrField<api::Argument>& arguments);

// A Python literal: 64, True, 1e-06, "text", fp16, fn:gelu, None, (1, 2).
std::string LiteralText(const storage::ConstantValue& value);
std::string LiteralText(const api::Constant& value);

void ToWire(const storage::ConstantValue& value, api::Constant* constant);
void ToWire(const storage::LaunchOptions& from, api::Options* to);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_RECIPE_H_
