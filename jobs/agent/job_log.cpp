#include "jobs/agent/job_log.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "jobs/queue/job.h"

namespace foretime::jobs {
namespace {

/// Returns at most `limit` bytes of UTF-8 text, cut between characters.
std::string cut(std::string text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit;
  while (end > 0 && continues_character(text[end])) --end;
  text.resize(end);
  return text;
}

}  // namespace

JobLog::JobLog(std::shared_ptr<OutputFile> file, FileWork& work, size_t file_limit)
    : splitter_(Limits::kLogLine, true), file_(std::move(file)), work_(work), file_left_(file_limit) {}

void JobLog::write(std::string_view text) {
  if (file_) unwritten_ += text;
  write_more();
}

void JobLog::write_more() {
  if (!file_) return;
  if (writing_.valid() && !is_ready(writing_)) {
    if (unwritten_.size() > kUnwrittenBytes) give_up("its storage is too slow, or does not answer");
    return;
  }
  try {
    if (writing_.valid()) writing_.get();
  } catch (const FileError& error) {
    return give_up(error.what());
  }
  if (!unwritten_.empty())
    writing_ = work_.run([file = file_, text = std::exchange(unwritten_, "")] { file->write(text); });
}

void JobLog::give_up(const std::string& why) {
  file_.reset();
  unwritten_.clear();
  add(fmt::format("[agent] output.log ends here: {}", why));
}

void JobLog::feed(std::string_view output) {
  if (file_left_ > 0) {
    const auto kept = std::min(file_left_, output.size());
    write(output.substr(0, kept));
    file_left_ -= kept;
    if (file_left_ == 0) write("\n[agent] the output is longer: the rest is not kept here\n");
  }
  splitter_.feed(output, [&](const std::string& line, bool) {
    ++job_lines_;
    add(printable_utf8(line));
  });
}

void JobLog::note(const std::string& text) {
  write("[agent] " + text + "\n");
  add(printable_utf8("[agent] " + text));
}

void JobLog::finish() {
  splitter_.finish([&](const std::string& line, bool) { add(printable_utf8(line)); });
}

void JobLog::add(std::string line) {
  line = cut(std::move(line), Limits::kLogLine);
  tail_.push_back(line);
  if (tail_.size() > kTailLines) tail_.pop_front();
  pending_.push_back(std::move(line));
  // One less than the ring holds: room for the line that says how many were left out.
  while (std::ssize(pending_) >= Limits::kLogLines) {
    pending_.pop_front();
    ++skipped_lines_;
  }
}

std::vector<std::string> JobLog::take_lines() {
  std::vector<std::string> lines;
  if (skipped_lines_ > 0)
    lines.push_back(fmt::format("[agent] {} lines are left out here; output.log has them", skipped_lines_));
  lines.insert(lines.end(), pending_.begin(), pending_.end());
  pending_.clear();
  skipped_lines_ = 0;
  return lines;
}

std::string JobLog::tail() const {
  std::string text;
  for (const auto& line : tail_) text += "\n" + line;
  // The end matters most, and all of it has to fit beside the message.
  constexpr size_t kRoom = Limits::kError - 512;
  if (text.size() <= kRoom) return text;
  size_t begin = text.size() - kRoom;
  while (begin < text.size() && continues_character(text[begin])) ++begin;
  return "\n…" + text.substr(begin);
}

}  // namespace foretime::jobs
