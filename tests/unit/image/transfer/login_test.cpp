#include "image/transfer/login.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <array>

#include "base/base64.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "image/scratch.hpp"

namespace sarus::image::login_test {
namespace {

struct Dialogue {
    std::optional<LoginData> credentials;
    std::string output;
    std::string rest;  ///< of the input
    std::string error;
};

Dialogue talk(const LoginOptions& options, const std::string& input) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    EXPECT_EQ(::pipe(in.data()), 0);
    EXPECT_EQ(::pipe(out.data()), 0);
    const UniqueFd inRead(in[0]);
    const UniqueFd outRead(out[0]);
    UniqueFd inWrite(in[1]);
    UniqueFd outWrite(out[1]);
    writeAll(inWrite.get(), input, "pipe");
    inWrite.reset();
    Dialogue dialogue;
    try {
        dialogue.credentials = obtainCredentials(options, inRead.get(), outWrite.get());
    } catch (const Error& error) {
        dialogue.error = error.what();
    }
    outWrite.reset();
    dialogue.output = readAll(outRead.get(), 10000, "pipe");
    dialogue.rest = readAll(inRead.get(), 10000, "pipe");
    return dialogue;
}

TEST(LoginData, areNotAskedForWithoutAnOption) {
    const auto dialogue = talk({}, "user\npassword\n");
    EXPECT_FALSE(dialogue.credentials);
    EXPECT_EQ(dialogue.rest, "user\npassword\n");
    EXPECT_EQ(dialogue.output, "");
}

TEST(LoginData, loginReadsUserNameAndPasswordFromTwoLines) {
    for (const std::string input : {"user\npass word", "user\npass word\n", "user\r\npass word\r\n"}) {
        const auto dialogue = talk({.login = true}, input);
        ASSERT_TRUE(dialogue.credentials) << dialogue.error;
        EXPECT_EQ(dialogue.credentials->username, "user");
        EXPECT_EQ(dialogue.credentials->password, "pass word");
        EXPECT_EQ(dialogue.output, "username: password: \n");
    }
}

TEST(LoginData, loginWithAUserNameAsksForThePasswordOnly) {
    const auto dialogue = talk({.login = true, .username = "user"}, "secret\nrest");
    ASSERT_TRUE(dialogue.credentials);
    EXPECT_EQ(dialogue.credentials->username, "user");
    EXPECT_EQ(dialogue.credentials->password, "secret");
    EXPECT_EQ(dialogue.output, "username: user\npassword: \n");
    EXPECT_EQ(dialogue.rest, "rest");
}

TEST(LoginData, userNameAloneMeansAnEmptyPassword) {
    const auto dialogue = talk({.username = "user"}, "input");
    ASSERT_TRUE(dialogue.credentials);
    EXPECT_EQ(dialogue.credentials->password, "");
    EXPECT_EQ(dialogue.rest, "input");
}

TEST(LoginData, passwordFromStandardInput) {
    const auto dialogue = talk({.passwordStdin = true, .username = "user"}, "secret\n");
    ASSERT_TRUE(dialogue.credentials);
    EXPECT_EQ(dialogue.credentials->password, "secret");
    EXPECT_EQ(dialogue.output, "");
}

TEST(LoginData, emptyUserNameIsAnError) {
    const std::string message = "Invalid username: empty value provided";
    EXPECT_EQ(talk({.username = ""}, "").error, message);
    EXPECT_EQ(talk({.login = true, .username = ""}, "x\n").error, message);
    EXPECT_EQ(talk({.login = true}, "\npassword\n").error, message);
    EXPECT_EQ(talk({.passwordStdin = true}, "password\n").error, message);
}

TEST(LoginData, passwordFromStandardInputExcludesLogin) {
    EXPECT_EQ(talk({.login = true, .passwordStdin = true, .username = "user"}, "x\ny\n").error,
              "The options '--password-stdin' and '--login' cannot be used together");
}

TEST(LoginData, terminalDoesNotEchoThePasswordAndIsRestored) {
    const UniqueFd master(::posix_openpt(O_RDWR | O_NOCTTY));
    if (!master || ::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0) {
        GTEST_SKIP() << "no pseudo-terminals here";
    }
    const UniqueFd terminal(::open(::ptsname(master.get()), O_RDWR | O_NOCTTY));
    const UniqueFd null(::open("/dev/null", O_WRONLY));
    // The echo is switched off with a flush, so that the password may be typed only afterwards.
    const pid_t typist = ::fork();
    if (typist == 0) {
        termios state{};
        while (::tcgetattr(terminal.get(), &state) == 0 && (state.c_lflag & ECHO) != 0) {
            ::usleep(1000);
        }
        ::_exit(::write(master.get(), "secret\n", 7) == 7 ? 0 : 1);
    }
    const auto credentials =
        obtainCredentials({.login = true, .username = "user"}, terminal.get(), null.get());
    EXPECT_EQ(credentials->password, "secret");
    termios state{};
    ::tcgetattr(terminal.get(), &state);
    EXPECT_NE(state.c_lflag & ECHO, 0U);
    ::fcntl(master.get(), F_SETFL, O_NONBLOCK);
    std::string echoed(100, '\0');
    const auto count = ::read(master.get(), echoed.data(), echoed.size());
    EXPECT_EQ(std::string_view(echoed.data(), count > 0 ? static_cast<std::size_t>(count) : 0).find("secret"),
              std::string_view::npos);
    ::kill(typist, SIGKILL);
}

TEST(Base64, matchesTheStandardsExamples) {
    EXPECT_EQ(encodeBase64(""), "");
    EXPECT_EQ(encodeBase64("f"), "Zg==");
    EXPECT_EQ(encodeBase64("fo"), "Zm8=");
    EXPECT_EQ(encodeBase64("foo"), "Zm9v");
    EXPECT_EQ(encodeBase64("foobar"), "Zm9vYmFy");
    EXPECT_EQ(encodeBase64("\xff\xfe\xfd"), "//79");
}

TEST(CredentialFiles, thatOthersCanChangeOrReadAreWarnedAbout) {
    const test::Scratch scratch;
    const auto warningFor = [&](const std::string& text, mode_t mode) {
        const auto file = scratch.write("auth.json", text);
        ::chmod(file.c_str(), mode);
        ::setenv("REGISTRY_AUTH_FILE", file.c_str(), 1);
        testing::internal::CaptureStderr();
        warnAboutUnsafeCredentials();
        ::unsetenv("REGISTRY_AUTH_FILE");
        return testing::internal::GetCapturedStderr();
    };
    const std::string login = R"({"auths":{"r":{"auth":"eA=="}}})";
    const std::string helper = R"({"credHelpers":{"r":"program"}})";
    EXPECT_NE(warningFor(helper, 0602).find("Other users can change the credentials in"), std::string::npos);
    EXPECT_NE(warningFor(login, 0620).find("Other users can change the credentials in"), std::string::npos);
    EXPECT_NE(warningFor(login, 0640).find("Other users can read the credentials in"), std::string::npos);
    EXPECT_EQ(warningFor(helper, 0644), "");
    EXPECT_EQ(warningFor(login, 0600), "");
}

TEST(ForeignHome, isForgottenByRootAlone) {
    const test::Scratch scratch;
    const std::string before = ::getenv("HOME") != nullptr ? ::getenv("HOME") : "/";
    const auto home = scratch.path("");
    testing::internal::CaptureStderr();
    const auto isForgotten = [&](uid_t owner) {
        ::setenv("HOME", home.c_str(), 1);
        EXPECT_TRUE(::geteuid() != 0 || ::chown(home.c_str(), owner, 0) == 0);
        forgetForeignHome();
        return ::getenv("HOME") == nullptr;
    };
    const bool isRoot = ::geteuid() == 0;
    EXPECT_EQ(isForgotten(61234), isRoot);
    EXPECT_FALSE(isForgotten(0));
    const auto warning = cat("Root does not use the HOME \"", home, "\", which is not root's");
    EXPECT_EQ(testing::internal::GetCapturedStderr().find(warning) != std::string::npos, isRoot);
    ::setenv("HOME", before.c_str(), 1);
}

TEST(AuthenticationFile, isGoodForTheRepositoryOnly) {
    EXPECT_EQ(authenticationFileText(parseReference("quay.io/a/b/c:t"), {"user", "pa\"ss"}),
              R"({"auths":{"quay.io/a/b/c":{"auth":"dXNlcjpwYSJzcw=="}}})");
}

TEST(AuthenticationFile, canBeReadByItsOwnerOnlyAndIsRemoved) {
    const test::Scratch scratch;
    const auto path = scratch.path("sarus/sarus-auth-abcdefghijklmnop.json");
    {
        const auto oldMask = ::umask(0);
        const AuthenticationFile file(scratch.path("sarus"), "abcdefghijklmnop", parseReference("a"),
                                      {"user", "password"});
        ::umask(oldMask);
        EXPECT_EQ(file.path(), path);
        struct stat status {};
        ASSERT_EQ(::stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777U, 0600U);
        EXPECT_EQ(readFile(path), authenticationFileText(parseReference("a"), {"user", "password"}));
    }
    EXPECT_FALSE(pathExists(path));
}

TEST(AuthenticationFile, doesNotFollowALinkThatIsInItsPlace) {
    const test::Scratch scratch;
    const auto victim = scratch.write("victim", "data");
    createDirectories(scratch.path("sarus"));
    ASSERT_EQ(::symlink(victim.c_str(), scratch.path("sarus/sarus-auth-abcdefghijklmnop.json").c_str()), 0);
    EXPECT_THROW(AuthenticationFile(scratch.path("sarus"), "abcdefghijklmnop", parseReference("a"),
                                    {"user", "password"}),
                 Error);
    EXPECT_EQ(readFile(victim), "data");
}

}  // namespace
}  // namespace sarus::image::login_test
