#include "base/pipe.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>

namespace sarus::pipe_test {
namespace {

void write(const UniqueFd& fd, std::string_view text) {
    ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(ReadToEnd, TakesWhatComesFromEachPipe) {
    auto first = makePipe();
    auto second = makePipe();
    write(first.writer, "one");
    write(second.writer, "two");
    first.writer.reset();
    second.writer.reset();
    std::string a;
    std::string b;
    EXPECT_TRUE(readToEnd({{first.reader.get(), [&](auto piece) { a += piece; }},
                           {second.reader.get(), [&](auto piece) { b += piece; }}}));
    EXPECT_EQ(a, "one");
    EXPECT_EQ(b, "two");
}

TEST(ReadToEnd, GivesUpWhenItsPatienceIsOver) {
    const auto pipe = makePipe();
    write(pipe.writer, "so far");
    std::string text;
    EXPECT_FALSE(
        readToEnd({{pipe.reader.get(), [&](auto piece) { text += piece; }}}, std::chrono::milliseconds(20)));
    EXPECT_EQ(text, "so far");
}

TEST(ReadToEnd, CallsItsTickWhileNothingComes) {
    auto pipe = makePipe();
    int calls = 0;
    const Tick tick{std::chrono::milliseconds(1), [&] {
                        if (++calls == 3) {
                            pipe.writer.reset();
                        }
                    }};
    EXPECT_TRUE(readToEnd({{pipe.reader.get(), [](auto) {}}}, {}, tick));
    EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace sarus::pipe_test
