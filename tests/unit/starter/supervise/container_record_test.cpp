#include "starter/supervise/container_record.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/process_tree.hpp"
#include "base/subprocess.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "starter/runtime_state.hpp"

namespace sarus::starter::container_record_test {
namespace {

using testing::ElementsAre;

const ContainerRecord sample{.image = "a:1",
                             .command = {"sh", "-c", "x"},
                             .environment = {"A=1", "B=\n\""},
                             .workdir = "/w",
                             .ownVariables = {"A"}};

TEST(ContainerRecord, IsReadWhileItsContainerLives) {
    const test::TemporaryDirectory directory;
    const auto file = RecordFile::create(directory.path(), "n", sample);
    const auto record = readRecord(directory.path(), "n");
    ASSERT_TRUE(record);
    EXPECT_EQ(record->image, "a:1");
    EXPECT_THAT(record->command, ElementsAre("sh", "-c", "x"));
    EXPECT_THAT(record->environment, ElementsAre("A=1", "B=\n\""));
    EXPECT_EQ(record->workdir, "/w");
    EXPECT_THAT(record->ownVariables, ElementsAre("A"));
    struct stat status {};
    ASSERT_EQ(::stat(cat(directory.path(), "/.n.json").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST(ContainerRecord, KnowsWhatConfinesTheContainer) {
    const test::TemporaryDirectory directory;
    auto confined = sample;
    confined.apparmorProfile = "profile";
    confined.selinuxLabel = "u:r:t:s0";
    const auto file = RecordFile::create(directory.path(), "n", confined);
    const auto free = RecordFile::create(directory.path(), "free", sample);
    EXPECT_EQ(readRecord(directory.path(), "n")->apparmorProfile, "profile");
    EXPECT_EQ(readRecord(directory.path(), "n")->selinuxLabel, "u:r:t:s0");
    EXPECT_EQ(readRecord(directory.path(), "free")->apparmorProfile, std::nullopt);
    EXPECT_EQ(readRecord(directory.path(), "free")->selinuxLabel, std::nullopt);
}

TEST(ContainerRecord, KnowsWhatTheContainerWasStartedWith) {
    const test::TemporaryDirectory directory;
    auto made = sample;
    made.imageContent = "content";
    made.settings = {{"mount on /a\xff", "/b\n"}, {"SSH", ""}};
    const auto file = RecordFile::create(directory.path(), "n", made);
    EXPECT_EQ(readRecord(directory.path(), "n")->imageContent, "content");
    EXPECT_EQ(readRecord(directory.path(), "n")->settings, made.settings);
    (*made.settings)["large"] = std::string(1U << 20U, 'x');
    const auto large = RecordFile::create(directory.path(), "large", made);
    EXPECT_EQ(readRecord(directory.path(), "large")->settings, std::nullopt);
    const auto unknown = RecordFile::create(directory.path(), "unknown", sample);
    EXPECT_EQ(readRecord(directory.path(), "unknown")->settings, std::nullopt);
}

TEST(ContainerRecord, IsSmallHoweverMuchTheUserHas) {
    const test::TemporaryDirectory directory;
    auto huge = sample;
    huge.environment.insert(huge.environment.begin(), cat("LARGE=", std::string(100U << 10U, '\x01')));
    huge.environment.insert(huge.environment.begin(), cat("FITS=", std::string(100U << 10U, 'x')));
    huge.environment.insert(huge.environment.end(), 1U << 20U, "MANY=1");
    huge.command.insert(huge.command.begin() + 1, std::string(1U << 20U, 'x'));
    huge.settings.emplace()["mount on /a"] = std::string(20U << 10U, 'x');
    const auto file = RecordFile::create(directory.path(), "n", huge);
    struct stat status {};
    ASSERT_EQ(::stat(cat(directory.path(), "/.n.json").c_str(), &status), 0);
    EXPECT_LT(status.st_size, 330 << 10);
    const auto record = readRecord(directory.path(), "n");
    EXPECT_TRUE(record->incomplete);
    EXPECT_THAT(record->command, ElementsAre("sh", "-c", "x"));
    ASSERT_GT(record->environment.size(), 2U);
    EXPECT_EQ(record->environment[0].substr(0, 5), "FITS=");
    EXPECT_EQ(record->environment[1], "A=1");
    const auto small = RecordFile::create(directory.path(), "small", sample);
    EXPECT_FALSE(readRecord(directory.path(), "small")->incomplete);
    huge.workdir = std::string(1U << 20U, '/');
    EXPECT_THROW(RecordFile::create(directory.path(), "m", huge), Error);
}

TEST(ContainerRecord, KnowsWhoMadeTheContainersUser) {
    const test::TemporaryDirectory directory;
    auto helped = sample;
    helped.createsUser = true;
    const auto file = RecordFile::create(directory.path(), "n", helped);
    const auto direct = RecordFile::create(directory.path(), "direct", sample);
    EXPECT_TRUE(readRecord(directory.path(), "n")->createsUser);
    EXPECT_FALSE(readRecord(directory.path(), "direct")->createsUser);
}

TEST(ContainerRecord, GoesWithItsOwner) {
    const test::TemporaryDirectory directory;
    { const auto file = RecordFile::create(directory.path(), "n", sample); }
    EXPECT_FALSE(readRecord(directory.path(), "n"));
    EXPECT_FALSE(pathExists(cat(directory.path(), "/.n.json")));
}

TEST(ContainerRecord, OfAKilledStarterIsNoContainerAndIsTakenOver) {
    const test::TemporaryDirectory directory;
    writeAll(openFile(cat(directory.path(), "/.n.json"), O_WRONLY | O_CREAT, 0600).get(),
             "longer than the new one {}", "stale");
    EXPECT_FALSE(readRecord(directory.path(), "n"));
    const auto file = RecordFile::create(directory.path(), "n", sample);
    EXPECT_TRUE(readRecord(directory.path(), "n"));
}

TEST(ContainerRecord, IsNeverWrittenThroughALink) {
    const test::TemporaryDirectory directory;
    ASSERT_EQ(::symlink("/dev/null", cat(directory.path(), "/.n.json").c_str()), 0);
    EXPECT_THROW(RecordFile::create(directory.path(), "n", sample), Error);
}

TEST(ContainerRecord, SweepTakesWhatKilledStartersLeftAndNothingElse) {
    const test::TemporaryDirectory directory;
    const auto living = RecordFile::create(directory.path(), "living", sample);
    const auto make = [&](const std::string& name) {
        writeAll(openFile(directory / name, O_WRONLY | O_CREAT, 0600).get(), "{}", name);
    };
    for (const char* name : {".gone.json", ".json", "gone.json", ".gone"}) {
        make(name);
    }
    ASSERT_EQ(::symlink("living", (directory / ".link.json").c_str()), 0);
    ASSERT_EQ(::mkfifo((directory / ".fifo.json").c_str(), 0600), 0);
    sweepDeadContainers(directory.path());
    EXPECT_FALSE(pathExists(directory / ".gone.json"));
    EXPECT_TRUE(readRecord(directory.path(), "living"));
    for (const char* name : {".json", "gone.json", ".gone"}) {
        EXPECT_TRUE(pathExists(directory / name)) << name;
    }
    struct stat status {};
    EXPECT_EQ(::lstat((directory / ".link.json").c_str(), &status), 0);
    sweepDeadContainers(directory / "missing");
}

/// What crun leaves of a container with this first process.
void makeState(const test::TemporaryDirectory& directory, const std::string& name, const Process& first) {
    test::writeRuntimeState(directory.path(), name, first.pid(),
                            first.started() + (first.pid() == 1 ? 1 : 0));
}

TEST(ContainerRecord, SweepTakesTheRuntimesStateOfTheDeadAlone) {
    const test::TemporaryDirectory directory;
    const Process alive(::getpid());
    const Process anotherOfThisNumber(1);
    makeState(directory, "dead", anotherOfThisNumber);
    makeState(directory, "survivor", alive);
    makeState(directory, "starting", anotherOfThisNumber);
    createDirectories(directory / "empty");
    createDirectories(directory / "torn");
    writeAll(openFile(directory / "torn/state.json", O_WRONLY | O_CREAT, 0600).get(), "{\"init_pro", "state");
    const auto starting = RecordFile::create(directory.path(), "other", sample);
    makeState(directory, "other", anotherOfThisNumber);
    sweepDeadContainers(directory.path());
    for (const char* name : {"dead", "starting", "empty", "torn", ".dead.json", ".survivor.json"}) {
        EXPECT_FALSE(pathExists(directory / name)) << name;
    }
    EXPECT_TRUE(pathExists(directory / "survivor"));
    EXPECT_TRUE(pathExists(directory / "other"));
    EXPECT_TRUE(hasEnded(directory.path(), "other"));
    EXPECT_FALSE(hasEnded(directory.path(), "survivor"));
}

TEST(KnownContainers, AreThoseThatLiveOrSomebodyLooksAfter) {
    using Status = KnownContainer::Status;
    const test::TemporaryDirectory directory;
    const Process alive(::getpid());
    makeState(directory, "survivor", alive);
    makeState(directory, "made", alive);
    ASSERT_EQ(::mkfifo((directory / "made/exec.fifo").c_str(), 0600), 0);
    const auto coming = RecordFile::create(directory.path(), "coming", sample);
    const auto ending = RecordFile::create(directory.path(), "ending", sample);
    makeState(directory, "ending", Process(1));
    createDirectories(directory / "empty");
    writeAll(openFile(directory / ".gone.json", O_WRONLY | O_CREAT, 0600).get(), "{}", "record");
    std::map<std::string, Status> found;
    for (const auto& known : knownContainers(directory.path())) {
        EXPECT_EQ(known.state.has_value(), known.status != Status::creating) << known.name;
        found[known.name] = known.status;
    }
    EXPECT_EQ(found, (std::map<std::string, Status>{{"survivor", Status::running},
                                                    {"made", Status::created},
                                                    {"coming", Status::creating},
                                                    {"ending", Status::stopped}}));
    EXPECT_TRUE(knownContainers(directory / "missing").empty());
}

TEST(ContainerRecord, ReservesTheName) {
    const test::TemporaryDirectory directory;
    const auto file = RecordFile::create(directory.path(), "n", sample);
    makeState(directory, "n", Process(::getpid()));
    EXPECT_THROW(RecordFile::create(directory.path(), "n", sample), Error);
    EXPECT_TRUE(readRecord(directory.path(), "n"));
}

TEST(ContainerRecord, WaitsForTheRuntimesStateOfAContainerThatIsThere) {
    const test::TemporaryDirectory directory;
    awaitRuntimeState(directory.path(), "n");
    const auto starter = RecordFile::create(directory.path(), "n", sample);
    std::thread runtime([&] {
        ::usleep(100'000);  // longer than it takes
        makeState(directory, "n", Process(::getpid()));
    });
    awaitRuntimeState(directory.path(), "n");
    EXPECT_FALSE(hasEnded(directory.path(), "n"));
    runtime.join();
}

TEST(ContainerRecord, ThatIsNotWrittenYetIsNone) {
    const test::TemporaryDirectory directory;
    const auto file = openFile(directory / ".n.json", O_RDWR | O_CREAT, 0600);
    ASSERT_EQ(::flock(file.get(), LOCK_EX), 0);
    EXPECT_EQ(readRecord(directory.path(), "n"), std::nullopt);
}

TEST(ContainerRecord, WaitsForTheEndOfAContainerThatIsEnding) {
    const test::TemporaryDirectory directory;
    auto ending = std::make_optional(RecordFile::create(directory.path(), "n", sample));
    makeState(directory, "n", Process(1));
    std::thread janitor([&] {
        ::usleep(500'000);  // longer than a cleanup takes
        ending.reset();
    });
    EXPECT_NO_THROW(RecordFile::create(directory.path(), "n", sample));
    janitor.join();
}

TEST(ContainerRecord, WaitsForTheEndOfAProgramWhoseSupervisorsAreDead) {
    const test::TemporaryDirectory directory;
    const auto program = start({.path = "/bin/sleep", .args = {"sleep", "1000"}});
    makeState(directory, "n", Process(program.pid()));
    std::thread kernel([&] {
        ::usleep(100'000);  // longer than the end of a process takes
        ::kill(program.pid(), SIGKILL);
    });
    EXPECT_NO_THROW(RecordFile::create(directory.path(), "n", sample));
    kernel.join();
}

TEST(ContainerRecord, ANameIsFreeWhenItsContainerIsDead) {
    const test::TemporaryDirectory directory;
    makeState(directory, "dead", Process(1));
    makeState(directory, "survivor", Process(::getpid()));
    EXPECT_NO_THROW(RecordFile::create(directory.path(), "dead", sample));
    EXPECT_FALSE(pathExists(directory / "dead"));
    EXPECT_THROW(RecordFile::create(directory.path(), "survivor", sample), Error);
    EXPECT_TRUE(pathExists(directory / "survivor"));
}

TEST(ContainerRecord, HoldsWhatItWasGivenBesideItsCgroup) {
    const test::TemporaryDirectory directory;
    auto file = RecordFile::create(directory.path(), "n", sample);
    createDirectories(directory / "cgroup");
    file.noteCgroup(directory / "cgroup");
    ASSERT_TRUE(readRecord(directory.path(), "n"));
    EXPECT_EQ(readRecord(directory.path(), "n")->image, "a:1");
    file.release();
    { const auto closed = std::move(file); }
    EXPECT_TRUE(pathExists(directory / ".n.json"));
    sweepDeadContainers(directory.path());
    EXPECT_FALSE(pathExists(directory / "cgroup"));
}

TEST(ContainerRecord, StartsAreNotDisturbedBySweeps) {
    const test::TemporaryDirectory directory;
    const pid_t sweeper = ::fork();
    if (sweeper == 0) {
        for (;;) {
            sweepDeadContainers(directory.path());
        }
    }
    for (int i = 0; i < 200; ++i) {
        // A stale one of the same name is what both want to lock.
        writeAll(openFile(directory / ".n.json", O_WRONLY | O_CREAT, 0600).get(), "{}", "stale");
        createDirectories(directory / "n");
        const auto file = RecordFile::create(directory.path(), "n", sample);
        EXPECT_TRUE(readRecord(directory.path(), "n"));
        ASSERT_TRUE(pathExists(directory / ".n.json"));
    }
    ::kill(sweeper, SIGKILL);
    ::waitpid(sweeper, nullptr, 0);
}

}  // namespace
}  // namespace sarus::starter::container_record_test
