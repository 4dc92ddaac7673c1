#include "worker/profile/profiler.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/index_range.h"
#include "base/process.h"

namespace foretime::worker {
namespace {

using Clock = Profiler::Clock;

int64_t nanoseconds(Clock::duration time) { return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(); }

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

using Json = nlohmann::json;

constexpr size_t kEventsOfAllRanks = 500000;
constexpr int kBarriers = 5;

const char* const kPlaces[] = {"training", "beside", "wire"};

int64_t clock_ns(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::string packed(const ProfileSnapshot& snapshot, const std::vector<int64_t>& barriers) {
  // Bytes and not objects: nothing but numbers travels for an event.
  const auto* events = reinterpret_cast<const uint8_t*>(snapshot.events.data());
  Json totals = Json::array();
  for (const auto& [key, total] : snapshot.totals)
    totals.push_back(
        {static_cast<int>(key.first), key.second, total.count, total.seconds, total.self_seconds, total.longest});
  const Json all = {{"wall", snapshot.wall_ns},
                    {"dropped", snapshot.dropped},
                    {"texts", snapshot.texts},
                    {"events", Json::binary({events, events + snapshot.events.size() * sizeof(ProfileEvent)})},
                    {"totals", totals},
                    {"start", clock_ns(snapshot.start)},
                    {"barriers", barriers},
                    {"host", boot_id()}};
  const auto bytes = Json::to_cbor(all);
  return {bytes.begin(), bytes.end()};
}

RankProfile unpacked(const Json& all) {
  RankProfile rank;
  auto& snapshot = rank.snapshot;
  snapshot.wall_ns = all.at("wall");
  snapshot.dropped = all.at("dropped");
  all.at("texts").get_to(snapshot.texts);
  all.at("host").get_to(rank.host);
  const auto& events = all.at("events").get_binary();
  snapshot.events.resize(events.size() / sizeof(ProfileEvent));
  std::copy(events.begin(), events.end(), reinterpret_cast<uint8_t*>(snapshot.events.data()));
  for (const auto& total : all.at("totals"))
    snapshot.totals[{static_cast<SpanPlace>(total[0].get<int>()), total[1]}] = {total[2], total[3], total[4], total[5]};
  return rank;
}

/// Returns the difference to add to a rank's clock to get rank 0's.
int64_t clock_difference(const Json& root, const Json& other) {
  if (!root.at("host").get<std::string>().empty() && root.at("host") == other.at("host")) return 0;
  std::vector<int64_t> differences;
  for (size_t i = 0; i < root.at("barriers").size(); ++i)
    differences.push_back(root.at("barriers")[i].get<int64_t>() - other.at("barriers")[i].get<int64_t>());
  const auto middle = differences.begin() + differences.size() / 2;
  std::nth_element(differences.begin(), middle, differences.end());
  return *middle;
}

/// Gives transfers that overlap lanes of their own. The lane of each event, in the order of `events`; -1 for others.
std::vector<int> wire_lanes(const std::vector<ProfileEvent>& events) {
  std::vector<size_t> order;
  for (size_t i = 0; i < events.size(); ++i)
    if (events[i].lane == ProfileEvent::kWireLane) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return events[a].begin_ns < events[b].begin_ns; });
  std::vector<int> lanes(events.size(), -1);
  std::vector<int64_t> ends;  // end of the last event in each lane
  for (const size_t i : order) {
    const auto& event = events[i];
    size_t lane = 0;
    while (lane < ends.size() && ends[lane] > event.begin_ns) ++lane;
    if (lane == ends.size()) ends.push_back(0);
    ends[lane] = event.begin_ns + event.duration_ns;
    lanes[i] = lane;
  }
  return lanes;
}

/// Writes JSON piece by piece: a document of half a million objects would take a gigabyte.
class TraceText {
 public:
  void add(const Json& event) {
    text_ += text_.empty() ? "" : ",\n";
    text_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  std::string finish(const Json& other) {
    return "{\"displayTimeUnit\":\"ms\",\"otherData\":" + other.dump() + ",\"traceEvents\":[\n" + text_ + "\n]}\n";
  }

 private:
  std::string text_;
};

/// The name of a rank or of one of its threads, and its place in the order of all.
void add_name(TraceText& text, const char* what, int rank, int thread, const std::string& name, int place) {
  const Json row = {{"ph", "M"}, {"pid", rank}, {"tid", thread}};
  for (const auto& [key, args] :
       {std::pair("name", Json{{"name", name}}), {"sort_index", Json{{"sort_index", place}}}}) {
    auto named = row;
    named["name"] = fmt::format("{}_{}", what, key);
    named["args"] = args;
    text.add(named);
  }
}

void add_rank(TraceText& text, int rank, const RankProfile& profile) {
  const auto& [snapshot, host, shift] = profile;
  add_name(text, "process", rank, 0, fmt::format("rank {}", rank), rank);
  add_name(text, "thread", rank, 0, "training", 0);
  const auto microseconds = [shift = shift](int64_t ns) { return (ns + shift) / 1e3; };
  if (snapshot.dropped > 0 && !snapshot.events.empty())
    text.add({{"ph", "i"},
              {"s", "p"},
              {"name", fmt::format("{} earlier spans were dropped", snapshot.dropped)},
              {"pid", rank},
              {"tid", 0},
              {"ts", microseconds(snapshot.events.front().begin_ns)}});
  const auto lanes = wire_lanes(snapshot.events);
  std::map<int, std::string> threads;
  for (size_t i = 0; i < snapshot.events.size(); ++i) {
    const auto& event = snapshot.events[i];
    const int thread = lanes[i] >= 0 ? kFirstWireThread + lanes[i] : event.lane;
    if (thread > 0) threads[thread] = lanes[i] >= 0 ? "transfers" : fmt::format("thread {}", thread);
    Json row = {{"ph", "X"},
                {"name", snapshot.texts[event.name]},
                {"cat", "foretime"},
                {"pid", rank},
                {"tid", thread},
                {"ts", microseconds(event.begin_ns)},
                {"dur", event.duration_ns / 1e3}};
    if (event.detail != 0) row["args"] = {{"what", snapshot.texts[event.detail]}};
    text.add(row);
  }
  for (const auto& [thread, name] : threads) add_name(text, "thread", rank, thread, name, thread);
}

std::string cell(double value) { return fmt::format("{:.3f}", value); }

}  // namespace

Profiler::Profiler(size_t limit)
    : limit_(std::max<size_t>(limit, 1)),
      start_(Clock::now()),
      training_thread_(std::this_thread::get_id()),
      texts_(1) {}

uint32_t Profiler::number_of(std::string_view text, bool needed) {
  if (text.empty()) return 0;
  if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
  if (!needed && texts_.size() >= kMaxTexts) return 0;
  const uint32_t number = texts_.size();
  texts_.emplace_back(text);
  numbers_.emplace(text, number);
  return number;
}

/// Threads that come and go share lanes, so that a trace has as many as there were threads at one time.
uint16_t Profiler::free_lane() const {
  for (uint16_t lane = 1;; ++lane)
    if (std::none_of(threads_.begin(), threads_.end(), [&](const auto& item) { return item.second.lane == lane; }))
      return lane;
}

Profiler::Thread& Profiler::thread() {
  const auto id = std::this_thread::get_id();
  const auto found = threads_.find(id);
  if (found != threads_.end()) return found->second;
  const uint16_t lane = id == training_thread_ ? 0 : free_lane();
  return threads_.emplace(id, Thread{lane, {}}).first->second;
}

void Profiler::begin(std::string_view name, std::string_view detail) {
  const std::lock_guard lock(mutex_);
  const auto name_number = number_of(name, true), detail_number = number_of(detail, false);
  thread().open.push_back({name_number, detail_number, Clock::now(), {}});
}

void Profiler::end() {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  const auto found = threads_.find(std::this_thread::get_id());
  if (found == threads_.end()) return;
  auto& [lane, open] = found->second;
  const auto span = open.back();
  open.pop_back();
  if (!open.empty()) open.back().inner += now - span.begin;
  record(lane == 0 ? SpanPlace::training : SpanPlace::beside, lane, span.name, span.detail, span.begin, now,
         span.inner);
  if (open.empty()) threads_.erase(found);
}

void Profiler::add(std::string_view name, Clock::time_point begin, Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  auto& own = thread();
  if (!own.open.empty()) own.open.back().inner += end - begin;
  const uint16_t lane = own.lane;
  if (own.open.empty()) threads_.erase(std::this_thread::get_id());
  record(lane == 0 ? SpanPlace::training : SpanPlace::beside, lane, number_of(name, true), 0, begin, end, {});
}

void Profiler::add_transfer(std::string_view name, Clock::time_point begin, Clock::time_point end,
                            std::string_view detail) {
  const std::lock_guard lock(mutex_);
  record(SpanPlace::wire, ProfileEvent::kWireLane, number_of(name, true), number_of(detail, false), begin, end, {});
}

void Profiler::record(SpanPlace place, uint16_t lane, uint32_t name, uint32_t detail, Clock::time_point begin,
                      Clock::time_point end, Clock::duration inner) {
  auto& totals = totals_[{place, name}];
  ++totals.count;
  totals.seconds += seconds(end - begin);
  totals.self_seconds += seconds(end - begin - inner);
  totals.longest = std::max(totals.longest, seconds(end - begin));
  const ProfileEvent event{nanoseconds(begin - start_), nanoseconds(end - begin), name, detail, lane};
  if (ring_.size() < limit_) ring_.push_back(event);
  else ring_[recorded_ % limit_] = event;
  ++recorded_;
}

ProfileSnapshot Profiler::snapshot() const {
  const std::lock_guard lock(mutex_);
  ProfileSnapshot result;
  result.wall_ns = nanoseconds(Clock::now() - start_);
  result.start = start_;
  result.dropped = recorded_ - std::ssize(ring_);
  result.texts = texts_;
  result.events = ring_;
  if (result.dropped > 0) {
    const std::ptrdiff_t first = recorded_ % limit_;
    std::rotate(result.events.begin(), result.events.begin() + first, result.events.end());
  }
  for (const auto& [key, totals] : totals_) result.totals[{key.first, texts_[key.second]}] = totals;
  return result;
}

size_t events_per_rank(int ranks) {
  return std::min(Profiler::kMaxEvents, std::max<size_t>(1, kEventsOfAllRanks / ranks));
}

std::vector<RankProfile> gather_profiles(const Profiler& profiler, comm::Communicator& comm) {
  const auto snapshot = profiler.snapshot();  // taken first, since the barriers are no part of the run
  std::vector<int64_t> barriers;
  for (int i = 0; i < kBarriers; ++i) {
    comm.barrier();
    barriers.push_back(clock_ns(Clock::now()));
  }
  const auto all = comm.all_gather_bytes(packed(snapshot, barriers));
  std::vector<RankProfile> ranks;
  if (comm.rank() != 0) return ranks;
  Json root;
  for (const auto& bytes : all) {
    const auto own = Json::from_cbor(bytes);
    if (ranks.empty()) root = {{"host", own.at("host")}, {"barriers", own.at("barriers")}, {"start", own.at("start")}};
    ranks.push_back(unpacked(own));
    ranks.back().shift_ns =
        own.at("start").get<int64_t>() + clock_difference(root, own) - root.at("start").get<int64_t>();
  }
  return ranks;
}

std::string chrome_trace(const std::vector<RankProfile>& ranks) {
  TraceText text;
  Json dropped = Json::array();
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    add_rank(text, rank, ranks[rank]);
    dropped.push_back(ranks[rank].snapshot.dropped);
  }
  return text.finish({{"program", "foretime"}, {"ranks", ranks.size()}, {"dropped_spans", dropped}});
}

void record_reduction(Profiler* profiler, const comm::GradientReducer::Timing& timing) {
  if (profiler == nullptr || timing.buckets.empty()) return;
  profiler->add("reduce wait", timing.wait_began, timing.wait_ended);
  for (size_t i = 0; i < timing.buckets.size(); ++i) {
    const auto& bucket = timing.buckets[i];
    profiler->add_transfer("reduce bucket", bucket.started, bucket.done,
                           fmt::format("bucket {}, {} bytes of gradients", i, bucket.bytes));
  }
}

std::vector<std::vector<std::string>> profile_rows(const std::vector<RankProfile>& ranks) {
  struct Row {
    SpanTotals all;
    std::vector<double> by_rank;  // seconds
  };
  std::map<std::pair<SpanPlace, std::string>, Row> rows;
  double wall = 0;
  const std::pair other{SpanPlace::training, std::string("other")};
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const double own_wall = ranks[rank].snapshot.wall_ns / 1e9;
    wall += own_wall;
    double explained = 0;
    const auto add = [&](const auto& key, const SpanTotals& totals) {
      auto& row = rows[key];
      row.by_rank.resize(ranks.size());
      row.all.count += totals.count;
      row.all.seconds += totals.seconds;
      row.all.self_seconds += totals.self_seconds;
      row.all.longest = std::max(row.all.longest, totals.longest);
      row.by_rank[rank] += totals.self_seconds;
    };
    for (const auto& [key, totals] : ranks[rank].snapshot.totals) {
      add(key, totals);
      if (key.first == SpanPlace::training) explained += totals.self_seconds;
    }
    add(other, {0, 0, own_wall - explained, 0});
  }
  std::vector<std::pair<std::pair<SpanPlace, std::string>, Row>> sorted(rows.begin(), rows.end());
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) {
    const auto key = [&](const auto& item) {
      return std::tuple(item.first.first, item.first == other, -item.second.all.self_seconds);
    };
    return key(a) < key(b);
  });
  std::vector<std::vector<std::string>> table = {
      {"span", "where", "count", "total s", "share", "mean ms", "longest ms", "least of a rank s", "most of a rank s"}};
  for (const auto& [key, row] : sorted) {
    const bool rest = key == other;
    const auto [least, most] = std::minmax_element(row.by_rank.begin(), row.by_rank.end());
    table.push_back(
        {key.second, kPlaces[index_of(key.first)], rest ? "-" : std::to_string(row.all.count),
         cell(row.all.self_seconds),
         wall > 0 && key.first != SpanPlace::wire ? fmt::format("{:.1f} %", 100 * row.all.self_seconds / wall) : "-",
         rest ? "-" : cell(1e3 * row.all.seconds / row.all.count), rest ? "-" : cell(1e3 * row.all.longest),
         cell(*least), cell(*most)});
  }
  return table;
}

}  // namespace foretime::worker
