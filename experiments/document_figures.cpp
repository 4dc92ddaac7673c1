#include <algorithm>

#include <fmt/format.h>

#include "experiments/document_part.h"
#include "experiments/metrics.h"

namespace foretime::experiments {
namespace {

using configs::YamlEntry;

constexpr size_t kFigureText = 300;

FigureKind figure_kind_in(const YamlEntry& item) {
  const auto kind = configs::choice_in(item, {"curves", "scatter", "groups", "metrics"});
  if (kind == "curves") return FigureKind::curves;
  if (kind == "scatter") return FigureKind::scatter;
  return kind == "groups" ? FigureKind::groups : FigureKind::metrics;
}

/// A file name of letters, digits, - and _ that ends in .svg: it is written into the output folder and nowhere else.
std::string file_in(const YamlEntry& item) {
  const auto name = configs::text_in(item, 100);
  const auto plain = [](unsigned char c) { return (std::isalnum(c) != 0 && c < 0x80) || c == '-' || c == '_'; };
  const auto stem = name.substr(0, name.size() - std::min<size_t>(4, name.size()));
  if (!name.ends_with(".svg") || stem.empty() || !std::all_of(stem.begin(), stem.end(), plain))
    fail(item, fmt::format("found {}, expected a file name such as error.svg", name));
  return name;
}

std::vector<std::string> list_in(const YamlEntry& item) {
  std::vector<std::string> texts;
  if (item.node.IsScalar()) return {configs::text_in(item, kFigureText)};
  if (!item.node.IsSequence()) fail(item, "found a map, expected a list");
  for (const YAML::Node& node : item.node) texts.push_back(configs::text_in({item.key, node, item.place}, kFigureText));
  return texts;
}

FigureSpec read_figure(const YamlEntry& map, const std::string& origin, const Experiment& experiment) {
  FigureSpec figure;
  for (const YamlEntry& item :
       items_of(map, origin, "", {"file", "kind", "title", "metric", "metrics", "entries", "x", "y"})) {
    if (item.key == "file") figure.file = file_in(item);
    if (item.key == "kind") figure.kind = figure_kind_in(item);
    if (item.key == "title") figure.title = configs::text_in(item, kFigureText);
    if (item.key == "metric" || item.key == "metrics") {
      figure.metrics = list_in(item);
      for (const auto& name : figure.metrics) {
        if (find_metric(name) == nullptr)
          fail(item, fmt::format("found the metric {}, expected one of {}", name, fmt::join(metric_names(), ", ")));
      }
    }
    if (item.key == "entries") figure.entries = list_in(item);
    if (item.key == "x") figure.log_x = configs::choice_in(item, {"linear", "log"}) == "log";
    if (item.key == "y") figure.log_y = configs::choice_in(item, {"linear", "log"}) == "log";
  }
  if (figure.file.empty()) fail(map, "found a figure without file");
  if (figure.metrics.empty()) {
    figure.metrics = experiment.metrics;
    if (figure.kind != FigureKind::metrics) figure.metrics.resize(1);
  }
  return figure;
}

}  // namespace

std::vector<FigureSpec> read_figures(const YamlEntry& list, const std::string& origin, const Experiment& experiment) {
  if (!list.node.IsSequence()) fail(list, "expected a list of figures");
  std::vector<FigureSpec> figures;
  for (const YAML::Node& node : list.node) {
    auto figure = read_figure({list.key, node, list.place}, origin, experiment);
    for (const auto& other : figures) {
      if (other.file == figure.file) fail(list, fmt::format("found the file {} a second time", figure.file));
    }
    figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace foretime::experiments
