#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/jobs/board.h"

namespace foretime::cli {

/// One HTML file that needs no server: the board's styles and scripts, with the answers to what its page asks.
/// `answers`: {"view": address of the page, PATH: answer, …}. Its Content-Security-Policy names its own scripts alone.
/// `subject`: what is shown, for the page's title.
std::string report_page(const nlohmann::json& answers, const std::string& subject);

/// `foretime report`: of a run directory, of a folder with run directories, or of a sweep or a job of the queue. Writes
/// the file and says so. Throws Error where the target is none of them.
void write_report(const ReportArguments& arguments);

}  // namespace foretime::cli
