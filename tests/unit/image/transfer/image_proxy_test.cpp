#include "image/transfer/image_proxy.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::image::image_proxy_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// The other end of the socket.
class FakeProxy {
public:
    FakeProxy() {
        std::array<int, 2> ends{};
        checkErrno(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), "socketpair");
        client.reset(ends[0]);
        server.reset(ends[1]);
    }

    /// The next request; "" at the end.
    std::string request() {
        std::string text(4096, '\0');
        const auto count = ::recv(server.get(), text.data(), text.size(), 0);
        return text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }

    void answer(const std::string& text, int descriptor = -1) {
        iovec part{const_cast<char*>(text.data()), text.size()};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
        if (descriptor >= 0) {
            message.msg_control = control.data();
            message.msg_controllen = control.size();
            auto* const header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(sizeof(int));
            std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
        }
        ::sendmsg(server.get(), &message, MSG_NOSIGNAL);
    }

    void succeed(const std::string& value = "null") {
        answer(cat(R"({"success":true,"value":)", value, R"(,"pipeid":0,"error":""})"));
    }
    void fail(const std::string& error) {
        answer(cat(R"({"success":false,"value":null,"pipeid":0,"error":")", error, "\"}"));
    }
    /// Answers with a pipe, and returns its other end.
    UniqueFd succeedWithPipe(int id, const std::string& value = "null") {
        auto pipe = makePipe();
        answer(cat(R"({"success":true,"value":)", value, R"(,"pipeid":)", id, R"(,"error":""})"),
               pipe.reader.get());
        return std::move(pipe.writer);
    }
    void open() {
        request();
        succeed(R"("0.2.3")");
        request();
        succeed("7");
    }
    void end() { server.reset(); }

    UniqueFd client;

private:
    UniqueFd server;
};

void write(const UniqueFd& pipe, std::string_view data) {
    writeAll(pipe.get(), data, "a pipe");
}

/// Runs both sides; returns the refusal.
template <typename Server, typename Client>
std::string talk(Server serve, Client use) {
    FakeProxy fake;
    ImageProxy proxy(std::move(fake.client), {std::chrono::milliseconds(100), [] {}});
    std::thread server([&] { serve(fake); });
    try {
        use(proxy);
    } catch (const Error&) {
        EXPECT_NE(proxy.refusal(), "");
    }
    server.join();
    return proxy.refusal();
}

const auto nothing = [](std::string_view) {};

TEST(ImageProxy, opensAnImageAndGetsItsDocuments) {
    const auto refusal = talk(
        [](FakeProxy& fake) {
            EXPECT_EQ(fake.request(), R"({"method":"Initialize","args":[]})");
            fake.succeed(R"("0.2.3")");
            EXPECT_EQ(fake.request(), R"({"method":"OpenImage","args":["docker://a/\"b"]})");
            fake.succeed("7");
            EXPECT_EQ(fake.request(), R"({"method":"GetManifest","args":[7]})");
            auto pipe = fake.succeedWithPipe(9, R"("sha256:a")");
            write(pipe, "mani");
            EXPECT_EQ(fake.request(), R"({"method":"FinishPipe","args":[9]})");
            write(pipe, "fest");
            fake.succeed();
            pipe.reset();
            EXPECT_EQ(fake.request(), R"({"method":"GetFullConfig","args":[7]})");
            pipe = fake.succeedWithPipe(10);
            write(pipe, "config");
            fake.request();
            fake.succeed();
        },
        [](ImageProxy& proxy) {
            proxy.open("docker://a/\"b");
            const auto [text, digest] = proxy.manifest();
            EXPECT_EQ(text, "manifest");
            EXPECT_EQ(digest, "sha256:a");
            EXPECT_EQ(proxy.config(), "config");
        });
    EXPECT_EQ(refusal, "");
}

TEST(ImageProxy, knowsOneVersionOfTheProtocol) {
    for (const std::string version : {"0.2.2", "0.3.3", "1.0", "", "0.2.x", "0.2.3.1"}) {
        const auto refusal = talk(
            [&](FakeProxy& fake) {
                fake.request();
                fake.succeed(cat('"', version, '"'));
            },
            [](ImageProxy& proxy) { proxy.open("docker://a"); });
        EXPECT_THAT(refusal, StartsWith("its protocol has the version")) << version;
    }
}

TEST(ImageProxy, getsSeveralBlobsAtOnce) {
    std::string first;
    std::string second;
    const auto refusal = talk(
        [](FakeProxy& fake) {
            fake.open();
            EXPECT_EQ(fake.request(), R"({"method":"GetBlob","args":[7,"sha256:1",6]})");
            auto one = fake.succeedWithPipe(1);
            EXPECT_EQ(fake.request(), R"({"method":"GetBlob","args":[7,"sha256:2",3]})");
            auto two = fake.succeedWithPipe(2);
            write(one, "abc");
            write(two, "xyz");
            EXPECT_EQ(fake.request(), R"({"method":"FinishPipe","args":[2]})");
            write(one, "def");
            fake.succeed();
            two.reset();
            EXPECT_EQ(fake.request(), R"({"method":"FinishPipe","args":[1]})");
            fake.succeed();
        },
        [&](ImageProxy& proxy) {
            proxy.open("docker://a");
            proxy.begin("sha256:1", 6, [&](std::string_view piece) { first += piece; });
            proxy.begin("sha256:2", 3, [&](std::string_view piece) { second += piece; });
            const auto complete = proxy.next();
            EXPECT_EQ(complete->digest, "sha256:2");
            proxy.finish(complete);
            proxy.finish(proxy.next());
            EXPECT_EQ(proxy.streamCount(), 0U);
        });
    EXPECT_EQ(refusal, "");
    EXPECT_EQ(first, "abcdef");
    EXPECT_EQ(second, "xyz");
}

TEST(ImageProxy, asksAfterABlobThatStoppedWithoutAnEnd) {
    const auto refusal = talk(
        [](FakeProxy& fake) {
            fake.open();
            fake.request();
            const auto pipe = fake.succeedWithPipe(1);
            write(pipe, "abc");
            EXPECT_EQ(fake.request(), R"({"method":"FinishPipe","args":[1]})");
            fake.fail("unexpected EOF");
        },
        [](ImageProxy& proxy) {
            proxy.open("docker://a");
            proxy.begin("sha256:1", 6, nothing);
            proxy.finish(proxy.next());
        });
    EXPECT_EQ(refusal, "unexpected EOF");
}

TEST(ImageProxy, acceptsNoMoreThanWasRequested) {
    const auto refusal = talk(
        [](FakeProxy& fake) {
            fake.open();
            fake.request();
            write(fake.succeedWithPipe(1), "four");
        },
        [](ImageProxy& proxy) {
            proxy.open("docker://a");
            proxy.begin("sha256:1", 3, nothing);
            proxy.finish(proxy.next());
        });
    EXPECT_THAT(refusal, HasSubstr("more than was expected"));
}

TEST(ImageProxy, malformedAnswersAreRefused) {
    for (const std::string text :
         {"", "nonsense", "[]", "{}", R"({"success":false})", R"({"success":"true","value":"0.2.3"})",
          R"({"success":true,"value":{}})", R"({"success":true,"value":3})"}) {
        EXPECT_NE(talk(
                      [&](FakeProxy& fake) {
                          fake.request();
                          fake.answer(text);
                      },
                      [](ImageProxy& proxy) { proxy.open("docker://a"); }),
                  "")
            << text;
    }
    EXPECT_EQ(talk(
                  [&](FakeProxy& fake) {
                      fake.open();
                      fake.request();
                      fake.succeed();  // without a pipe
                  },
                  [](ImageProxy& proxy) {
                      proxy.open("docker://a");
                      proxy.manifest();
                  }),
              "it sent no pipe");
}

TEST(ImageProxy, theEndOfTheProgramIsARefusal) {
    for (const bool inABlob : {false, true}) {
        const auto refusal = talk(
            [&](FakeProxy& fake) {
                fake.open();
                fake.request();
                if (inABlob) {
                    fake.succeedWithPipe(1);
                }
                fake.end();
            },
            [](ImageProxy& proxy) {
                proxy.open("docker://a");
                proxy.begin("sha256:1", 3, nothing);
                proxy.finish(proxy.next());
            });
        EXPECT_THAT(refusal, StartsWith("it ")) << inABlob;
    }
}

TEST(ImageProxy, callsWhileItWaits) {
    FakeProxy fake;
    int calls = 0;
    ImageProxy proxy(std::move(fake.client), {std::chrono::milliseconds(10), [&] {
                                                  if (++calls == 3) {
                                                      throw Error("enough");
                                                  }
                                              }});
    EXPECT_THROW(proxy.open("docker://a"), Error);
    EXPECT_EQ(proxy.refusal(), "");
}

}  // namespace
}  // namespace sarus::image::image_proxy_test
