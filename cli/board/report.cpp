#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include "base/message.h"
#include "base/output_target.h"
#include "base/text.h"
#include "cli/board/board_service.h"
#include "cli/board/experiment_api.h"
#include "cli/board/run_api.h"
#include "cli/version/build_info.h"
#include "jobs/error.h"

namespace foretime::cli {

using Json = nlohmann::json;

namespace {

constexpr size_t kMostReported = 24;

std::string asset(const char* path) {
  for (const auto* each = kAssets; each->path != nullptr; ++each)
    if (std::strcmp(each->path, path) == 0) return each->text;
  throw jobs::JobsError("{}: not part of this program", path);
}

/// 'sha256-…', as a Content-Security-Policy names a script.
std::string source_hash(const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr);
  std::string code(4 * ((size + 2) / 3) + 1, '\0');
  code.resize(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(code.data()), digest, size));
  return "'sha256-" + code + "'";
}

void replace(std::string& text, std::string_view what, const std::string& by) {
  const auto found = text.find(what);
  if (found == std::string::npos) throw jobs::JobsError("index.html: found no '{}'", what);
  text.replace(found, what.size(), by);
}

/// Text of HTML.
std::string html_text(const std::string& text) {
  std::string safe;
  for (const char c : printable_utf8(text)) {
    if (c == '<' || c == '&') safe += c == '<' ? "&lt;" : "&amp;";
    else safe += c;
  }
  return safe;
}

/// The pages' modules as one: what they import from each other is there already. A line each for imports and lists of
/// exports, as the modules are written.
std::string bundled() {
  std::string text;
  for (const auto* each = kAssets; each->path != nullptr; ++each) {
    const std::string_view path = each->path;
    if (!path.ends_with(".js") || path == "/uplot.js") continue;
    std::string_view rest = each->text;
    while (!rest.empty()) {
      const auto line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      if (line.starts_with("import ") || line.starts_with("export {")) continue;
      text += line.starts_with("export ") ? line.substr(7) : line;
      text += '\n';
    }
  }
  return text;
}

Json report_of_runs(const std::string& folder) {
  const std::filesystem::path root(folder);
  const bool experiment = is_experiment(root, ".");
  std::vector<std::string> names;
  Json answers = {{"view", "/runs"}}, found = {{"total", 0}};
  if (experiment) {
    const auto shown = show_experiment(root, ".");
    names = shown["main"];
    answers["view"] = "/experiment";
    answers["/api/experiment?name=."] = shown;
  } else {
    found = list_runs(root);
    for (const auto& run : found["runs"]) names.push_back(run["name"]);
  }
  std::ranges::sort(names);
  if (names.empty() && !experiment)
    throw jobs::JobsError("{}: found no run directory, expected one, a folder with some, or the id of a sweep or job",
                          folder);
  if (names.size() > kMostReported)
    throw jobs::JobsError("{}: found {} run directories, expected at most {}: name a folder with fewer", folder,
                          found["total"].dump(), kMostReported);
  answers["runs"] = Json::array();
  for (const auto& name : names) {
    // A run that is the folder itself has the folder's name.
    const auto shown = name == "." ? printable_utf8(std::filesystem::canonical(root).filename().string()) : name;
    const auto query = percent_encoded(shown, "-_.!~*'()");  // JavaScript's encodeURIComponent
    auto run = show_run(root, name), rankings = show_rankings(root, name);
    run["name"] = rankings["name"] = shown;
    answers["/api/run?name=" + query] = std::move(run);
    answers["/api/rankings?name=" + query] = std::move(rankings);
    answers["runs"].push_back(shown);
  }
  return answers;
}

/// Returns the trials with the best objectives, in the order of their numbers.
Json best_trials(QueueApi& queue, const std::string& id) {
  const auto maximize = queue.sweep(id, {.limit = 1})["sweep"]["goal"] == "maximize";
  auto json = queue.sweep(id, {.sort = "objective", .descending = maximize, .limit = QueueApi::kMostRows});
  auto trials = json["trials"].get<std::vector<Json>>();
  std::ranges::sort(trials, {},
                    [](const Json& trial) { return trial["trial"].is_null() ? -1 : trial["trial"].get<int64_t>(); });
  json["trials"] = trials;
  return json;
}

Json report_of_queue(const ReportArguments& arguments) {
  QueueApi queue(arguments.queue);
  const auto [is_sweep, id] = queue.resolve(arguments.target);
  if (!is_sweep) {
    jobs::JobRecord record;
    auto job = queue.job(id, record);
    add_history(job, record, arguments.queue.runs);
    return {{"view", "/job/" + id}, {"/api/job?id=" + id, std::move(job)}, {"/api/log?id=" + id, queue.log(id)}};
  }
  return {{"view", "/sweep/" + id},
          {"/api/sweep?id=" + id, best_trials(queue, id)},
          {"/api/curves?id=" + id, queue.curves(id)},
          {"/api/overview?id=" + id, queue.overview(id)}};
}

/// Returns one HTML file that needs no server: the board's styles and scripts with the answers that its page needs.
/// `answers` is {"view": address of the page, PATH of a GET: its answer, …}. A Content-Security-Policy allows no other
/// scripts than these. `subject` becomes the page's title.
std::string report_page(const Json& answers, const std::string& subject) {
  const auto style = asset("/uplot.css") + asset("/style.css"), drawing = asset("/uplot.js"), pages = bundled();
  auto data = answers.dump(-1, ' ', false, Json::error_handler_t::replace);
  // Nothing in it ends the element that holds it.
  replace_all(data, "<", "\\u003c");
  auto page = asset("/index.html");
  replace(page, "<link rel=\"stylesheet\" href=\"/uplot.css\">\n", std::string(kReportMark) + "\n");
  replace(page, "<link rel=\"stylesheet\" href=\"/style.css\">", "<style>" + style + "</style>");
  replace(page, "<script src=\"/uplot.js\" defer></script>\n", "");
  replace(page, "<script src=\"/app.js\" type=\"module\"></script>\n", "");
  replace(page, "<meta charset=\"utf-8\">",
          fmt::format(
              "<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
              "script-src {} {}; style-src {}; img-src data:; base-uri 'none'; form-action 'none'\">",
              source_hash(drawing), source_hash(pages), source_hash(style)));
  replace(page,
          "<nav aria-label=\"Views\"><a href=\"/\" class=\"name\">Foretime</a><a href=\"/\">Queue</a>"
          "<a href=\"/agents\">Agents</a><a href=\"/runs\">Runs</a></nav>",
          fmt::format("<p class=\"name\">Foretime {} report, {:%Y-%m-%d %H:%M} UTC</p>", version_text(),
                      fmt::gmtime(std::time(nullptr))));
  replace(page, "<title>Foretime</title>", "<title>" + html_text(subject) + " – Foretime report</title>");
  replace(page, "</body>",
          "<script type=\"application/json\" id=\"answers\">" + data + "</script>\n<script>" + drawing +
              "</script>\n<script type=\"module\">" + pages + "</script>\n</body>");
  return page;
}

}  // namespace

void write_report(const ReportArguments& arguments) {
  expect_replaceable("-o", arguments.output, FileKind::report, arguments.force, {arguments.target});
  std::error_code failure;
  const bool is_folder = std::filesystem::is_directory(arguments.target, failure);
  const auto answers = is_folder ? report_of_runs(arguments.target) : report_of_queue(arguments);
  for (const auto& answer : answers)
    for (const auto& message : answer.is_object() ? answer.value("damaged", Json::array()) : Json::array())
      print_message("foretime: warning: skipped in the report: {}\n", message.get<std::string>());
  const auto subject = is_folder ? std::filesystem::canonical(arguments.target, failure).filename().string()
                                 : answers.at("view").get<std::string>().substr(1);
  const auto page = report_page(answers, subject);
  write_output(arguments.output, page);
  fmt::print("{}: {} KiB\n", arguments.output, (page.size() + 1023) / 1024);
}

}  // namespace foretime::cli
