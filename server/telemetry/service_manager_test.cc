#include "server/telemetry/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "runtime/memory/unique_fd.h"

namespace tessera::server {
namespace {

TEST(ServiceManager, IsToldByADatagram) {
  const std::string path = "/tmp/notify_" + std::to_string(getpid());
  runtime::UniqueFd manager(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  ASSERT_EQ(bind(manager.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  setenv("NOTIFY_SOCKET", path.c_str(), 1);
  EXPECT_TRUE(NotifyServiceManager("READY=1"));
  char text[64] = "";
  EXPECT_EQ(recv(manager.get(), text, sizeof(text), MSG_DONTWAIT), 7);
  EXPECT_STREQ(text, "READY=1");
  unlink(path.c_str());
  EXPECT_FALSE(NotifyServiceManager("READY=1")) << "nobody listens";
  unsetenv("NOTIFY_SOCKET");
  EXPECT_FALSE(NotifyServiceManager("READY=1")) << "not started by one";
}

}  // namespace
}  // namespace tessera::server
