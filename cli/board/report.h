#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/jobs/board.h"

namespace foretime::cli {

/// Returns one HTML file that needs no server: the board's styles and scripts with the answers that its page needs.
/// `answers` is {"view": address of the page, PATH of a GET: its answer, …}. A Content-Security-Policy allows no other
/// scripts than these. `subject` becomes the page's title.
std::string report_page(const nlohmann::json& answers, const std::string& subject);

/// Runs `foretime report` for a run directory, a folder with at most 24 of them, an experiment, or a sweep or job.
/// Writes the file and prints its name. Throws Error if the target is none of them or the file must not be replaced.
void write_report(const ReportArguments& arguments);

}  // namespace foretime::cli
