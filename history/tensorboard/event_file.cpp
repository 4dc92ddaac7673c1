#include "history/tensorboard/event_file.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include <boost/crc.hpp>
#include <fmt/format.h>

#include "base/foreign_file.h"
#include "base/numbers.h"
#include "base/process.h"
#include "base/text.h"
#include "history/tensorboard/event.pb.h"

namespace foretime::tensorboard {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "events.out.tfevents.";
constexpr const char* kSuffix = ".foretime";  // other programs' event files in this folder stay
constexpr int kFloat = 1, kString = 7, kTensorClass = 2, kSuccess = 1;
constexpr int kStringParameter = 1, kBoolParameter = 2, kNumberParameter = 3;
constexpr size_t kBuckets = 30;
constexpr uint64_t kMostEventBytes = uint64_t{4} << 30;
constexpr const char *kExperimentTag = "_hparams_/experiment", *kStartTag = "_hparams_/session_start_info",
                     *kEndTag = "_hparams_/session_end_info";

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <class Number>
std::string little_endian(Number value) {
  std::string bytes(sizeof(value), '\0');
  for (size_t i = 0; i < sizeof(value); ++i) bytes[i] = static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

template <class Number>
Number read_little_endian(std::string_view bytes) {
  Number value = 0;
  for (size_t i = 0; i < sizeof(value); ++i)
    value |= static_cast<Number>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& file : files().list(folder)) {
    const auto name = file.filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) found.push_back(file);
  }
  return found;
}

Event event_at(int64_t step) {
  Event event;
  event.set_wall_time(wall_time());
  event.set_step(step);
  return event;
}

Summary::Value* add_value(Event& event, const std::string& tag) {
  auto* value = event.mutable_summary()->add_value();
  value->set_tag(printable_utf8(tag));
  return value;
}

/// A summary that TensorBoard's plugin `name` reads.
Summary::Value* add_plugin_value(Event& event, const std::string& tag, const char* name, const std::string& content) {
  auto* value = add_value(event, tag);
  auto* metadata = value->mutable_metadata();
  metadata->set_data_class(kTensorClass);
  metadata->mutable_plugin_data()->set_plugin_name(name);
  metadata->mutable_plugin_data()->set_content(content);
  return value;
}

void add_hparams(Event& event, const char* tag, const HParamsPluginData& data) {
  // The metadata hold the content, but a series needs values.
  auto* tensor = add_plugin_value(event, tag, "hparams", data.SerializeAsString())->mutable_tensor();
  tensor->set_dtype(kFloat);
  tensor->mutable_tensor_shape();
  tensor->add_float_val(0);
}

}  // namespace

uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<uint32_t>(crc.checksum()), 15) + 0xa282ead8;
}

std::string record_of(std::string_view message) {
  const auto length = little_endian<uint64_t>(message.size());
  auto record = length + little_endian(masked_crc(length));
  record += message;
  return record + little_endian(masked_crc(message));
}

std::vector<std::string_view> messages_of(std::string_view file) {
  constexpr size_t kLength = 8, kCrc = 4;
  std::vector<std::string_view> messages;
  while (file.size() >= kLength + 2 * kCrc) {
    const auto length = read_little_endian<uint64_t>(file);
    if (read_little_endian<uint32_t>(file.substr(kLength)) != masked_crc(file.substr(0, kLength)) ||
        length > file.size() - kLength - 2 * kCrc)
      break;
    const auto message = file.substr(kLength + kCrc, length);
    if (read_little_endian<uint32_t>(file.substr(kLength + kCrc + length)) != masked_crc(message)) break;
    messages.push_back(message);
    file.remove_prefix(kLength + length + 2 * kCrc);
  }
  return messages;
}

EventFile::EventFile(const fs::path& folder, int64_t first_step) {
  const auto earlier = event_files(folder);
  Event version = event_at(0);
  version.set_file_version("brain.Event:2");
  auto text = record_of(version.SerializeAsString());
  for (const auto& file : earlier) {
    if (first_step <= 1) break;
    const auto bytes = read_foreign(folder, file.filename(), kMostEventBytes).value_or("");
    for (const auto message : messages_of(bytes)) {
      Event event;
      if (!event.ParseFromArray(message.data(), message.size()) || !event.has_summary() || event.step() >= first_step)
        continue;
      const auto& values = event.summary().value();
      // What is said at the end is said again.
      if (std::ranges::any_of(
              values, [](const auto& value) { return value.tag() == kEndTag || value.tag().starts_with(kFinal); }))
        continue;
      text += record_of(message);
      new_ = false;
    }
  }
  // The name is later than those of earlier files, so that a running TensorBoard continues with it.
  int64_t time = wall_time();
  const auto path_at = [&] { return folder / fmt::format("{}{:010}.{}{}", kPrefix, time, host_name(), kSuffix); };
  while (files().exists(path_at())) ++time;
  file_ = files().open(path_at(), Files::Open::replace);
  file_->write(text);
  for (const auto& file : earlier) files().remove(file);
}

EventFile::~EventFile() = default;

void EventFile::scalars(int64_t step, const std::map<std::string, double>& values) {
  auto event = event_at(step);
  for (const auto& [tag, value] : values) add_value(event, tag)->set_simple_value(value);
  if (!values.empty()) file_->write(record_of(event.SerializeAsString()));
}

void EventFile::histogram(int64_t step, const std::string& tag, std::span<const double> values) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite), [](double value) { return std::isfinite(value); });
  if (finite.empty()) return;
  const auto [low, high] = std::ranges::minmax(finite);
  auto event = event_at(step);
  auto* histogram = add_value(event, tag)->mutable_histo();
  histogram->set_min(low);
  histogram->set_max(high);
  histogram->set_num(finite.size());
  // The first bucket ends at the minimum and is empty: that is where the second one begins.
  const size_t buckets = high > low ? kBuckets : 1;
  std::vector<double> counts(buckets);
  double sum = 0, squares = 0;
  for (const double value : finite) {
    sum += value;
    squares += value * value;
    const double place = high > low ? (value - low) / (high - low) * buckets : 0;
    ++counts[std::min<size_t>(place, buckets - 1)];
  }
  histogram->set_sum(sum);
  histogram->set_sum_squares(squares);
  histogram->add_bucket_limit(low);
  histogram->add_bucket(0);
  for (size_t i = 0; i < buckets; ++i) {
    const double share = static_cast<double>(i + 1) / buckets;
    const double limit = i + 1 < buckets ? low + share * (high - low) : high;
    histogram->add_bucket_limit(high > low ? limit : std::nextafter(low, INFINITY));
    histogram->add_bucket(counts[i]);
  }
  file_->write(record_of(event.SerializeAsString()));
}

void EventFile::text(const std::string& tag, const std::string& markdown) {
  auto event = event_at(0);
  auto* tensor = add_plugin_value(event, tag, "text", "")->mutable_tensor();
  tensor->set_dtype(kString);
  tensor->mutable_tensor_shape()->add_dim()->set_size(1);
  tensor->add_string_val(markdown);
  file_->write(record_of(event.SerializeAsString()));
}

void EventFile::begin_hparams(const Parameters& parameters, const std::string& metric) {
  HParamsPluginData about, start;
  about.mutable_experiment()->set_time_created_secs(wall_time());
  about.mutable_experiment()->add_metric_infos()->mutable_name()->set_tag(printable_utf8(metric));
  start.mutable_session_start_info()->set_start_time_secs(wall_time());
  for (const auto& [name, value] : parameters) {
    auto* info = about.mutable_experiment()->add_hparam_infos();
    info->set_name(printable_utf8(name));
    auto& stored = (*start.mutable_session_start_info()->mutable_hparams())[info->name()];
    const auto number = parse_number<double>(without_plus(value));
    if (value == "true" || value == "false") {
      info->set_type(kBoolParameter);
      stored.set_bool_value(value == "true");
    } else if (number && std::isfinite(*number)) {
      info->set_type(kNumberParameter);
      stored.set_number_value(*number);
    } else {
      info->set_type(kStringParameter);
      stored.set_string_value(printable_utf8(value));
    }
  }
  auto event = event_at(0);
  add_hparams(event, kExperimentTag, about);
  add_hparams(event, kStartTag, start);
  file_->write(record_of(event.SerializeAsString()));
}

void EventFile::end_hparams(int64_t step) {
  HParamsPluginData data;
  data.mutable_session_end_info()->set_status(kSuccess);
  data.mutable_session_end_info()->set_end_time_secs(wall_time());
  auto event = event_at(step);
  add_hparams(event, kEndTag, data);
  file_->write(record_of(event.SerializeAsString()));
}

}  // namespace foretime::tensorboard
