// Descriptions of kernels on the wire.
#ifndef TESSERA_SERVER_RPC_DESCRIBE_MODULE_H_
#define TESSERA_SERVER_RPC_DESCRIBE_MODULE_H_

#include "proto/storage/modules.pb.h"
#include "proto/tessera/v1/common.pb.h"
#include "proto/tessera/v1/modules.pb.h"
#include "server/compile/module_table.h"

namespace tessera::server {

tessera::v1::Constant ToWire(const storage::ConstantValue& value);
tessera::v1::Config ToWire(const storage::TuneConfig& config);
tessera::v1::Kernel ToWire(const storage::KernelDescription& kernel);
// Kernels only; helpers that other kernels call are left out.
void DescribeOnWire(const Module& module, tessera::v1::RegisterModuleResponse* response);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_DESCRIBE_MODULE_H_
