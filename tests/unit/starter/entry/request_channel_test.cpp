#include "starter/entry/request_channel.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/unique_fd.hpp"
#include "starter/entry/entry.hpp"

namespace sarus::starter::request_channel_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr int allSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

int makeChannel(const engine::StarterRequest& request, int seals) {
    const int fd = ::memfd_create("request", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    writeAll(fd, engine::serializeRequest(request), "request");
    ::fcntl(fd, F_ADD_SEALS, seals);
    return fd;
}

class RequestChannel : public testing::Test {
protected:
    RequestChannel() : image(openFile("/dev/null", O_RDONLY)) {
        request.imageFd = image.get();
        request.imageReference = "index.docker.io/library/a:1";
    }

    std::string errorOf(int fd) {
        try {
            auto inherited = openDescriptors();
            receiveRequest(fd, inherited);
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    UniqueFd image;
    engine::LaunchRequest request;
};

TEST_F(RequestChannel, ASealedMemoryFileIsRead) {
    const int fd = makeChannel(request, allSeals);
    auto inherited = openDescriptors();
    const auto received = std::get<engine::LaunchRequest>(receiveRequest(fd, inherited));
    EXPECT_EQ(received.imageReference, request.imageReference);
    EXPECT_EQ(::fcntl(fd, F_GETFD), -1) << "the descriptor has to be closed";
    EXPECT_THAT(inherited, Not(testing::AnyOf(Contains(fd), Contains(image.get()))))
        << "they serve the starter";
}

TEST_F(RequestChannel, OtherVerbsComeWithoutAnImage) {
    auto inherited = openDescriptors();
    const int fd =
        makeChannel(engine::KillRequest{.sessionDirectory = {}, .name = "job", .signal = "9"}, allSeals);
    inherited.push_back(fd);
    EXPECT_EQ(std::get<engine::KillRequest>(receiveRequest(fd, inherited)).name, "job");
}

TEST_F(RequestChannel, EachSealIsNeeded) {
    for (const int missing : {F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE}) {
        EXPECT_THAT(errorOf(makeChannel(request, allSeals & ~missing)), HasSubstr("not a sealed memory file"))
            << missing;
    }
}

TEST_F(RequestChannel, APipeIsRefused) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd writer(ends[1]);
    EXPECT_THAT(errorOf(ends[0]), HasSubstr("not a sealed memory file"));
}

TEST_F(RequestChannel, StandardStreamsAndDescriptorsThatWereNotInheritedAreRefused) {
    EXPECT_THAT(errorOf(0), HasSubstr("is not open"));
    EXPECT_THAT(errorOf(123456), HasSubstr("is not open"));
    const UniqueFd channel(makeChannel(request, allSeals));
    std::vector<int> streams{0, 1, 2};
    EXPECT_THROW(receiveRequest(channel.get(), streams), Error) << "opened by the starter itself";
}

TEST_F(RequestChannel, TheImageMustBeAnInheritedDescriptorToo) {
    for (const int wrong : {-1, 0, 2, 123456}) {
        request.imageFd = wrong;
        EXPECT_THAT(errorOf(makeChannel(request, allSeals)), HasSubstr("image's descriptor")) << wrong;
    }
}

TEST_F(RequestChannel, ATooLargeFileIsRefusedBeforeItIsRead) {
    const int fd = ::memfd_create("request", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(engine::maxRequestSize) + 1), 0);
    ::fcntl(fd, F_ADD_SEALS, allSeals);
    EXPECT_THAT(errorOf(fd), HasSubstr("larger than"));
}

}  // namespace
}  // namespace sarus::starter::request_channel_test
