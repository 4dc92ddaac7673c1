#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <sys/resource.h>

/// What the benchmarks share: clocks, the best of several rounds, Python beside them, and `main`.
namespace foretime::bench {

inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Processor time of the calling thread.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Processor time of this process, user and system: others on the machine disturb little.
inline double process_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/// Seconds of `pass` by one of these clocks.
template <class Pass>
double seconds_of(double (*clock)(), Pass&& pass) {
  const double start = clock();
  pass();
  return clock() - start;
}

/// The shortest of several measurements counts: other processes only ever add time.
class Best {
 public:
  void add(double seconds) { seconds_ = std::min(seconds_, seconds); }
  template <class Pass>
  void time(double (*clock)(), Pass&& pass) {
    add(seconds_of(clock, pass));
  }
  double seconds() const { return seconds_; }

 private:
  double seconds_ = std::numeric_limits<double>::infinity();
};

template <class Pass>
double best_seconds(int rounds, double (*clock)(), Pass&& pass) {
  Best best;
  for (int round = 0; round < rounds; ++round) best.time(clock, pass);
  return best.seconds();
}

/// The number that a program of /usr/bin/python3 prints, which times itself, so that starting Python is not held
/// against it. Negative where there is no Python, or no such module.
inline double python_number(const std::string& program, std::initializer_list<std::string> arguments) {
  const auto quoted = [](const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
  };
  std::string command = "/usr/bin/python3 -c " + quoted(program);
  for (const auto& argument : arguments) command += " " + quoted(argument);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  double number = -1.0;
  return pipe && std::fscanf(pipe.get(), "%lf", &number) == 1 ? number : -1.0;
}

/// Seconds in which numpy reads every entry of an .npz, the best of so many repeats; negative without numpy.
inline double numpy_seconds(const std::string& file, int repeats) {
  return python_number(
      "import sys, time, numpy\n"
      "best = float('inf')\n"
      "for _ in range(int(sys.argv[2])):\n"
      "    start = time.perf_counter()\n"
      "    with numpy.load(sys.argv[1]) as archive:\n"
      "        arrays = [archive[name] for name in archive.files]\n"
      "    best = min(best, time.perf_counter() - start)\n"
      "print(best)\n",
      {file, std::to_string(repeats)});
}

/// `main` of a benchmark: `body` where there are at least `least` and at most `most` arguments, else its usage; a
/// failure is printed.
template <class Body>
int run(int count, char** arguments, const char* usage, int least, int most, Body&& body) {
  const auto name = std::filesystem::path(arguments[0]).filename().string();
  if (count - 1 < least || count - 1 > most) {
    fmt::print(stderr, "usage: {} {}\n", name, usage);
    return 2;
  }
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

}  // namespace foretime::bench
