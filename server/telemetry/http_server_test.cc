#include "server/telemetry/http_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "gtest/gtest.h"

namespace tessera::server {
namespace {

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    HttpServer::Handlers handlers;
    handlers["/"] = [] { return HttpResponse{200, "text/html", "<p>page"}; };
    handlers["/long"] = [] { return HttpResponse{200, "text/plain", std::string(3 << 20, 'x')}; };
    auto server = HttpServer::Listen("127.0.0.1:0", handlers);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  runtime::UniqueFd Connect() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    int port = 0;
    EXPECT_TRUE(
        absl::SimpleAtoi(server_->address().substr(server_->address().rfind(':') + 1), &port));
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    runtime::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  // Sends the text and reads to the end.
  std::string Exchange(const std::string& text) {
    runtime::UniqueFd fd = Connect();
    EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    std::string answer;
    char buffer[65536];
    for (ssize_t got; (got = recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;)
      answer.append(buffer, got);
    return answer;
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, ServesPagesToGetAndHead) {
  std::string answer = Exchange("GET /?q=1 HTTP/1.1\r\nHost: here\r\n\r\n");
  EXPECT_EQ(answer.find("HTTP/1.1 200 OK\r\n"), 0u) << answer;
  EXPECT_NE(answer.find("Content-Length: 7\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\n\r\n<p>page"), std::string::npos);
  answer = Exchange("HEAD / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(answer.find("<p>page"), std::string::npos);
  EXPECT_GT(Exchange("GET /long HTTP/1.1\r\n\r\n").size(), size_t{3} << 20);
}

TEST_F(HttpServerTest, RefusesWhatItDoesNotDo) {
  EXPECT_EQ(Exchange("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc").find("HTTP/1.1 405 "), 0u);
  EXPECT_EQ(Exchange("GET /none HTTP/1.1\r\n\r\n").find("HTTP/1.1 404 "), 0u);
  EXPECT_EQ(Exchange("GET  / HTTP/1.1\r\n\r\n").find("HTTP/1.1 400 "), 0u);
  EXPECT_EQ(Exchange("hello\r\n\r\n").find("HTTP/1.1 400 "), 0u);
  EXPECT_EQ(Exchange("GET / HTTP/1.1\r\nX: " + std::string(40000, 'x')), "")
      << "hangs up on an endless head";
}

TEST_F(HttpServerTest, StopsAtOnceThoughClientsAreSilent) {
  std::vector<runtime::UniqueFd> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(Connect());
  server_.reset();  // the test would time out
}

TEST_F(HttpServerTest, DoesNotShareAPort) {
  auto second = HttpServer::Listen(server_->address(), {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable) << second.status();
  EXPECT_FALSE(HttpServer::Listen("nonsense", {}).ok());
}

}  // namespace
}  // namespace tessera::server
