#include "base/logger/logger.h"

#include <vector>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include "base/files.h"
#include "base/foreign_file.h"
#include "base/message.h"

namespace foretime {

std::shared_ptr<spdlog::logger> make_logger(const std::filesystem::path& file, spdlog::level::level_enum level) {
  show(stdout, "");  // flushes before the output on standard error
  std::vector<spdlog::sink_ptr> sinks = {std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};
  // On a terminal a message takes the line of the progress bar, which is drawn again below it.
  sinks.front()->set_pattern(isatty(STDERR_FILENO) != 0 ? "\r\033[K%^%v%$" : "%^%v%$");
  if (!file.empty()) {
    open_real_below(file.parent_path(), file.filename());   // whatever is no regular file is refused
    real_files().open(file, Files::Open::append)->close();  // spdlog does not tell a failing disk from other reasons
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string()));
    } catch (const spdlog::spdlog_ex& error) {
      throw StorageError("{}: cannot be written: {}", file.string(), error.what());
    }
    sinks.back()->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  }
  auto logger = std::make_shared<spdlog::logger>("foretime", sinks.begin(), sinks.end());
  logger->set_level(level);
  logger->flush_on(spdlog::level::info);
  return logger;
}

void log_to_file(const spdlog::logger& log, const std::string& text) {
  if (log.sinks().size() < 2) return;  // the terminal alone
  try {
    log.sinks().back()->log(spdlog::details::log_msg(log.name(), spdlog::level::info, text));
    log.sinks().back()->flush();
  } catch (const spdlog::spdlog_ex&) {
    // A full disk: the failure that is to be logged says so.
  }
}

}  // namespace foretime
