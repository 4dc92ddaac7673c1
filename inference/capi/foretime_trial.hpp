#pragma once

// Any C++ program as a trial of a sweep: how it talks to the agent that started it (docs/reference/job-protocol.md).
// This header is all: C++17 and POSIX, no library. In Python it is foretime.Trial.
//
//   foretime::Trial trial;
//   const double rate = trial.number("optimizer.rate");
//   for (int64_t step = trial.first_step() + 1; step <= steps; ++step) {
//     ...
//     trial.report(step, steps, loss);
//     if (step % 100 == 0) {
//       trial.evaluation(step, {{"valid/accuracy", accuracy}});
//       trial.checkpoint(step, [&](const std::filesystem::path& folder) { save(folder / "weights"); });
//     }
//     trial.stop_if_asked();
//   }
//   trial.finish(steps, {{"valid/accuracy", accuracy}});
//
// The program is the `program` of a sweep file, run by `foretime agent --programs FOLDER`. Started by hand it works as
// well: reports are printed, and nobody asks it to stop.

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace foretime {

namespace trial_detail {

using Texts = std::map<std::string, std::string>;

/// Reads JSON into texts by dotted key: strings decoded, numbers, true and false as they stand, null empty, lists as
/// JSON.
class Flat {
 public:
  static Texts of(std::string_view json) {
    Flat flat(json);
    flat.value("");
    return std::move(flat.texts_);
  }

 private:
  explicit Flat(std::string_view json) : json_(json) {}

  [[noreturn]] static void fail() { throw std::runtime_error("foretime::Trial: this is no JSON"); }
  char peek() {
    at_ = std::min(json_.find_first_not_of(" \t\r\n", at_), json_.size());
    return at_ < json_.size() ? json_[at_] : '\0';
  }
  bool take(char c) { return peek() == c && ++at_ > 0; }
  void expect(char c) {
    if (!take(c)) fail();
  }

  void value(const std::string& key) {
    if (++depth_ > 100) fail();
    const char first = peek();
    const size_t begin = at_;
    if (take('{')) {
      for (bool more = !take('}'); more; more = more && !take('}')) {
        const auto name = string();
        expect(':');
        value(key.empty() ? name : key + "." + name);
        if (peek() != '}') expect(',');
      }
    } else if (take('[')) {
      const Texts before = texts_;
      while (!take(']')) {
        value(key);
        if (peek() != ']') expect(',');
      }
      texts_ = before;
      texts_[key] = json_.substr(begin, at_ - begin);
    } else if (first == '"') {
      texts_[key] = string();
    } else {
      at_ = std::min(json_.find_first_of(",]} \t\r\n", at_), json_.size());
      if (at_ == begin) fail();
      const auto word = json_.substr(begin, at_ - begin);
      texts_[key] = word == "null" ? "" : word;
    }
    --depth_;
  }

  std::string string() {
    expect('"');
    std::string text;
    while (at_ < json_.size() && json_[at_] != '"') {
      if (json_[at_] != '\\') {
        text += json_[at_++];
        continue;
      }
      const char kind = ++at_ < json_.size() ? json_[at_++] : '\0';
      constexpr std::string_view kKinds = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
      if (const auto place = kKinds.find(kind); kind != '\0' && place != std::string_view::npos) {
        text += kMeanings[place];
      } else if (kind == 'u') {
        unsigned code = hex();
        if (code >= 0xd800 && code < 0xdc00 && json_.substr(at_, 2) == "\\u") {
          at_ += 2;
          code = 0x10000 + ((code - 0xd800) << 10) + (hex() - 0xdc00);
        }
        add_utf8(text, code);
      } else {
        fail();
      }
    }
    expect('"');
    return text;
  }
  unsigned hex() {
    unsigned code = 0;
    const auto digits = json_.substr(std::min(at_, json_.size()), 4);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), code, 16).ptr != digits.data() + 4) fail();
    at_ += 4;
    return code;
  }
  static void add_utf8(std::string& text, unsigned code) {
    const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += static_cast<char>(0xc0 | (code >> 6));
    } else if (code < 0x10000) {
      text += static_cast<char>(0xe0 | (code >> 12)), tail(6);
    } else {
      text += static_cast<char>(0xf0 | (code >> 18)), tail(12), tail(6);
    }
    if (code >= 0x80) tail(0);
  }

  std::string_view json_;
  size_t at_ = 0;
  int depth_ = 0;
  Texts texts_;
};

inline std::string quoted(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      json += c;
    } else {
      constexpr char kDigits[] = "0123456789abcdef";
      json += std::string("\\u00") + kDigits[(c >> 4) & 15] + kDigits[c & 15];
    }
  }
  return json + "\"";
}

/// The shortest text that reads back the same; null where it is not finite.
inline std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// Of zlib, as the manifest of a checkpoint has it.
inline uint32_t crc32(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < made.size(); ++i) {
      uint32_t entry = i;
      for (int bit = 0; bit < 8; ++bit) entry = (entry >> 1) ^ ((entry & 1) != 0 ? 0xedb88320U : 0U);
      made[i] = entry;
    }
    return made;
  }();
  uint32_t sum = ~uint32_t{0};
  for (const char c : bytes) sum = (sum >> 8) ^ table[(sum ^ static_cast<unsigned char>(c)) & 255];
  return ~sum;
}

inline std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Until the file is on the disk.
inline void sync(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = file >= 0 && ::fsync(file) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (!done) throw std::system_error(error, std::generic_category(), path.string());
}

inline std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace trial_detail

/// Numbers by name.
using Numbers = std::map<std::string, double>;

/// The side of a job in the job protocol. Of a job of several ranks, rank 0 alone makes one. Not for several threads at
/// once. Throws std::exception where a file cannot be read or written; an agent that is gone is no error.
class Trial {
 public:
  Trial() {
    if (const auto told = trial_detail::variable("FORETIME_TRIAL"); !told.empty()) {
      told_ = true;
      const std::string parameters = "parameters.";
      for (const auto& [key, text] : trial_detail::Flat::of(trial_detail::read(told))) {
        if (key == "directory") directory_ = text;
        if (key == "resume") resume_ = text;
        if (key.compare(0, parameters.size(), parameters) == 0) settings_[key.substr(parameters.size())] = text;
      }
    }
    find_checkpoint();
    connect();
  }
  ~Trial() { disconnect(); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  /// What the sweep chose, by dotted key, as texts. Empty where the program was started by hand.
  const std::map<std::string, std::string>& settings() const { return settings_; }
  /// One of them as a number. Throws std::runtime_error where there is none.
  double number(const std::string& key) const {
    const auto found = settings_.find(key);
    if (found == settings_.end()) throw std::runtime_error("foretime::Trial: the sweep has no parameter " + key);
    char* end = nullptr;
    const double value = std::strtod(found->second.c_str(), &end);
    if (end == found->second.c_str() || *end != '\0')
      throw std::runtime_error("foretime::Trial: " + key + ": found '" + found->second + "', expected a number");
    return value;
  }
  /// The run directory: the place for all that the trial writes. `metrics.jsonl` there keeps what it reports in a
  /// sweep.
  const std::filesystem::path& directory() const { return directory_; }
  /// The checkpoint folder to continue from; none at the start.
  const std::optional<std::filesystem::path>& resumed() const { return resumed_; }
  /// Its step, 0 at the start.
  int64_t first_step() const { return first_step_; }
  /// Whether an agent listens.
  bool in_sweep() const { return channel_ >= 0; }

  /// How far the trial is; `values`: what was measured at this step, which becomes curves. Twice a second is enough.
  void report(int64_t step, int64_t total_steps, double loss, const Numbers& values = {}) {
    const auto measured = members(values);
    send("{\"type\": \"progress\", \"step\": " + std::to_string(step) +
         ", \"total_steps\": " + std::to_string(total_steps) + ", \"loss\": " + trial_detail::number(loss) +
         (values.empty() ? "" : ", \"values\": {" + measured + "}") + "}");
    note("train", step, "\"loss\": " + trial_detail::number(loss) + (values.empty() ? "" : ", " + measured));
  }
  /// Metrics of an evaluation; the sweep's metric among them decides on early stopping.
  void evaluation(int64_t step, const Numbers& metrics) {
    send("{\"type\": \"evaluation\", \"step\": " + std::to_string(step) +
         ", \"iteration\": " + std::to_string(++evaluations_) + ", \"metrics\": {" + members(metrics) + "}}");
    note("eval", step, members(metrics));
  }
  /// `write` writes files to the folder that it is given; they become the checkpoint of this step when it returns, and
  /// not before: the next attempt continues from it.
  void checkpoint(int64_t step, const std::function<void(const std::filesystem::path&)>& write) {
    namespace fs = std::filesystem;
    auto digits = std::to_string(step);
    digits.insert(0, 8 - std::min<size_t>(8, digits.size()), '0');
    const fs::path folder = directory_ / "checkpoints" / ("step-" + digits), beside = folder.string() + ".writing";
    fs::remove_all(beside);
    fs::create_directories(beside);
    try {
      write(beside);
      std::string files;
      for (const auto& entry : fs::directory_iterator(beside)) {
        if (!entry.is_regular_file())
          throw std::runtime_error(entry.path().string() + ": a checkpoint holds files, no folders");
        const auto content = trial_detail::read(entry.path());
        trial_detail::sync(entry.path());
        files += (files.empty() ? "" : ", ") + trial_detail::quoted(entry.path().filename().string()) +
                 ": {\"bytes\": " + std::to_string(content.size()) +
                 ", \"crc32\": " + std::to_string(trial_detail::crc32(content)) + "}";
      }
      std::ofstream manifest(beside / "manifest.json");
      manifest << "{\"files\": {" << files << "}, \"format\": 1, \"step\": " << step
               << ", \"evaluations\": " << evaluations_ << "}";
      manifest.close();
      if (!manifest) throw std::runtime_error(beside.string() + "/manifest.json: cannot be written");
      trial_detail::sync(beside / "manifest.json");
      fs::remove_all(folder);
      fs::rename(beside, folder);
    } catch (...) {
      std::error_code ignored;
      fs::remove_all(beside, ignored);
      throw;
    }
    send("{\"type\": \"checkpoint\", \"step\": " + std::to_string(step) +
         ", \"path\": " + trial_detail::quoted(fs::canonical(folder).string()) + "}");
  }
  /// Whether the agent asked the trial to end (early stopping, cancelled, the agent drains): write a checkpoint and end
  /// with exit code 75.
  bool should_stop() {
    std::array<char, 4096> bytes{};
    while (channel_ >= 0 && !reason_) {
      const auto count = ::recv(channel_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (count <= 0) break;
      pending_.append(bytes.data(), static_cast<size_t>(count));
      for (size_t end; !reason_ && (end = pending_.find('\n')) != std::string::npos; pending_.erase(0, end + 1)) {
        const auto message = trial_detail::Flat::of(pending_.substr(0, end));
        if (message.count("stop") != 0 && message.at("stop") == "true")
          reason_ = message.count("reason") != 0 ? message.at("reason") : "";
      }
    }
    return reason_.has_value();
  }
  /// Why the agent asked to stop; "" where it did not.
  std::string stop_reason() const { return reason_.value_or(""); }
  /// Ends the process with exit code 75 where the agent asked for it. Write a checkpoint before.
  void stop_if_asked() {
    if (!should_stop()) return;
    std::printf("stops: %s\n", stop_reason().c_str());
    std::exit(75);
  }
  /// The final metrics: the result of the trial.
  void finish(int64_t step, const Numbers& metrics) {
    note("final", step, members(metrics));
    send("{\"type\": \"result\", \"step\": " + std::to_string(step) + ", \"metrics\": {" + members(metrics) + "}}");
    disconnect();
  }

 private:
  static std::string members(const Numbers& numbers) {
    std::string json;
    for (const auto& [name, value] : numbers)
      json += (json.empty() ? "" : ", ") + trial_detail::quoted(name) + ": " + trial_detail::number(value);
    return json;
  }

  /// A line of metrics.jsonl (docs/reference/file-formats.md), by which the curves outlive the agent.
  void note(const char* kind, int64_t step, const std::string& measured) {
    if (!told_ || measured.empty()) return;
    std::ofstream file(directory_ / "metrics.jsonl", std::ios::app);
    file << "{\"kind\": \"" << kind << "\", \"step\": " << step << ", " << measured << "}\n";
    file.close();
    if (!file) throw std::runtime_error((directory_ / "metrics.jsonl").string() + ": cannot be written");
  }

  void find_checkpoint() {
    namespace fs = std::filesystem;
    if (resume_ == "none") return;
    if (resume_ != "auto" && !resume_.empty()) {
      resumed_ = resume_;
    } else if (std::error_code missing; fs::is_directory(directory_ / "checkpoints", missing)) {
      for (const auto& entry : fs::directory_iterator(directory_ / "checkpoints")) {
        const auto name = entry.path().filename().string();
        const bool whole = name.compare(0, 5, "step-") == 0 && entry.path().extension() != ".writing" &&
                           fs::exists(entry.path() / "manifest.json");
        if (whole && (!resumed_ || name > resumed_->filename().string())) resumed_ = entry.path();
      }
    }
    if (!resumed_) return;
    const auto manifest = trial_detail::Flat::of(trial_detail::read(*resumed_ / "manifest.json"));
    first_step_ = std::strtoll(manifest.at("step").c_str(), nullptr, 10);
    if (manifest.count("evaluations") != 0)
      evaluations_ = std::strtoll(manifest.at("evaluations").c_str(), nullptr, 10);
  }

  /// To the agent's socket on this machine; where that is another one, over TCP with the token of the attempt.
  void connect() {
    const auto path = trial_detail::variable("FORETIME_PROGRESS");
    if (path.empty()) return;
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    channel_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool fits = path.size() < sizeof(name.sun_path);
    if (fits) path.copy(name.sun_path, sizeof(name.sun_path) - 1);
    if (!fits || ::connect(channel_, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
      disconnect();
      connect_over_tcp();
      if (channel_ < 0) throw std::runtime_error(path + ": no agent listens, neither there nor over TCP");
      send("{\"token\": " + trial_detail::quoted(trial_detail::variable("FORETIME_PROGRESS_TOKEN")) + "}");
    }
    send("{\"type\": \"hello\", \"pid\": " + std::to_string(::getpid()) + "}");
  }
  void connect_over_tcp() {
    auto host = trial_detail::variable("FORETIME_PROGRESS_TCP");
    const auto colon = host.rfind(':');
    if (colon == std::string::npos) return;
    const auto port = host.substr(colon + 1);
    host.erase(colon);
    if (!host.empty() && host.front() == '[') host = host.substr(1, host.size() - 2);
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return;
    for (const addrinfo* each = found; each != nullptr && channel_ < 0; each = each->ai_next) {
      channel_ = ::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
      if (channel_ >= 0 && ::connect(channel_, each->ai_addr, each->ai_addrlen) != 0) disconnect();
    }
    ::freeaddrinfo(found);
  }
  void disconnect() {
    if (channel_ >= 0) ::close(channel_);
    channel_ = -1;
  }

  /// One line. Where the agent is gone, its supervisor ends this process, or a later agent goes on.
  void send(const std::string& message) {
    constexpr size_t kLongest = 65536;
    const auto line = message + "\n";
    if (line.size() > kLongest)
      throw std::runtime_error("foretime::Trial: a message of " + std::to_string(line.size()) +
                               " bytes, expected at most " + std::to_string(kLongest));
    if (channel_ < 0) {
      std::fputs(line.c_str(), stdout);
      std::fflush(stdout);
      return;
    }
    for (size_t sent = 0; sent < line.size() && channel_ >= 0;) {
      const auto count = ::send(channel_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (count > 0) sent += static_cast<size_t>(count);
      if (count < 0 && errno != EINTR) disconnect();
    }
  }

  std::map<std::string, std::string> settings_;
  std::filesystem::path directory_ = "runs/trial";
  std::string resume_ = "auto";
  std::optional<std::filesystem::path> resumed_;
  int64_t first_step_ = 0, evaluations_ = 0;
  bool told_ = false;  // by an agent, which has made the directory
  int channel_ = -1;
  std::string pending_;
  std::optional<std::string> reason_;
};

}  // namespace foretime
