#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

/// Messages that tests expect, kept in one file for each test program: tests/messages/PROGRAM.txt. A test's entries are
/// in the order of its calls. With FORETIME_UPDATE_MESSAGES=1 a program rewrites the entries of the tests that it ran.
/// An entry that no test uses is a failure.
namespace foretime::testing {

/// Returns a message without what differs between runs: $TMP is a folder for temporary files, $SOURCE and $BUILD are
/// those of the project, $PORT is a port of this host, $PID a process, $HOST this host, $VERSION that of Foretime.
/// Times, checksums of trained weights, identities, sizes, users and texts of nlohmann's JSON are marked as well.
/// Control characters become \xNN.
std::string marked_message(std::string_view text);

/// Returns the text up to its first line break: of a job's error, the reason without the last lines of its log.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Returns whether a message contains the places, such as a file and a field, and equals the next entry of the running
/// test. An empty message and that of message_of (tests/support/message_of.h) where nothing is thrown never do.
::testing::AssertionResult is_expected_message(std::string_view message,
                                               std::initializer_list<std::string_view> places);

template <std::convertible_to<std::string_view>... Places>
::testing::AssertionResult is_expected_message(std::string_view message, const Places&... places) {
  return is_expected_message(message, std::initializer_list<std::string_view>{std::string_view(places)...});
}

}  // namespace foretime::testing

/// EXPECT_MESSAGE(message, places...): the message contains each place, and its text is that of tests/messages/.
#define EXPECT_MESSAGE(...) EXPECT_TRUE(::foretime::testing::is_expected_message(__VA_ARGS__))
