#include "cli/board/queue_events.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <hiredis/hiredis.h>
#include <nlohmann/json.hpp>

#include "base/numbers.h"
#include "base/text.h"
#include "jobs/error.h"
#include "jobs/queue/packed_record.h"

namespace foretime::cli {

using Json = nlohmann::json;

namespace {

constexpr size_t kPage = 2000;
constexpr int64_t kSpans = 60;

int64_t time_of(std::string_view id) { return take_number<int64_t>(id).value_or(0); }

/// Fields that are none of an event's are left out.
QueueEvent event_of(const std::string& id, const jobs::Fields& fields) {
  QueueEvent event{.time_ms = time_of(id)};
  for (const auto& [field, text] : fields) {
    const auto value = printable_utf8(text.substr(0, jobs::Limits::kName));
    for (const auto& [name, member] : {std::pair{"event", &QueueEvent::event},
                                       {"job", &QueueEvent::job},
                                       {"from", &QueueEvent::from},
                                       {"to", &QueueEvent::to},
                                       {"fence", &QueueEvent::fence},
                                       {"agent", &QueueEvent::agent},
                                       {"why", &QueueEvent::why}}) {
      if (field == name) event.*member = value;
    }
  }
  return event;
}

}  // namespace

void QueueEvents::refresh() {
  try {
    read_new();
  } catch (const jobs::RedisDenied&) {
    throw;
  } catch (const jobs::RedisRefused& error) {
    if (std::string(error.what()).find("WRONGTYPE") == std::string::npos) throw;
    restart();
  }
}

void QueueEvents::restart() {
  first_ = end() + 1;  // followers have missed events
  events_.clear();
  last_.clear();
}

void QueueEvents::read_new() {
  // A queue that was emptied, or a Redis that lost data, starts again.
  if (!last_.empty()) {
    const auto there = client_.call({"XRANGE", stream_, last_, "+", "COUNT", "1"});
    if (there->elements == 0 || jobs::text_of(*there->element[0]->element[0]) != last_) restart();
  }
  for (size_t read = kPage; read == kPage;) {
    const auto page =
        client_.call({"XRANGE", stream_, last_.empty() ? "-" : "(" + last_, "+", "COUNT", std::to_string(kPage)});
    read = page->elements;
    for (size_t i = 0; i < read; ++i) {
      const auto& entry = *page->element[i];
      if (entry.elements != 2) continue;
      last_ = jobs::text_of(*entry.element[0]);
      for (const auto& fields : jobs::transitions_of(jobs::fields_of(*entry.element[1])))
        events_.push_back(event_of(last_, fields));
    }
    while (events_.size() > kMost) events_.pop_front(), ++first_;
  }
}

Json activity_of(const std::deque<QueueEvent>& events, const std::map<jobs::JobState, int64_t>& counts, int64_t now_ms,
                 int64_t minutes) {
  const int64_t span = std::max<int64_t>(1, minutes) * 60'000 / kSpans;
  const int64_t last = now_ms / span;  // the current span
  std::vector<Json> waiting(kSpans), active(kSpans), ended(kSpans), failed(kSpans);
  const auto count = [&](jobs::JobState state) {
    const auto found = counts.find(state);
    return found == counts.end() ? int64_t{0} : found->second;
  };
  int64_t waits = count(jobs::JobState::waiting), runs = count(jobs::JobState::active), ends = 0, fails = 0;
  auto event = events.rbegin();
  for (int64_t i = kSpans - 1; i >= 0; --i) {
    const int64_t begin = (last - (kSpans - 1 - i)) * span;
    waiting[i] = waits;
    active[i] = runs;
    for (ends = fails = 0; event != events.rend() && event->time_ms >= begin; ++event) {
      if (event->event == "refuse") continue;
      waits += (event->from == "waiting") - (event->to == "waiting");
      runs += (event->from == "active") - (event->to == "active");
      const bool bad = event->to == "failed" || event->to == "dead";
      fails += bad && event->from != event->to;
      ends += (bad || event->to == "succeeded") && event->from != event->to;
    }
    ended[i] = ends;
    failed[i] = fails;
    if (event == events.rend() && events.size() >= QueueEvents::kMost / 3) break;  // Redis has dropped what was before
  }
  Json times = Json::array();
  for (int64_t i = 0; i < kSpans; ++i) times.push_back((last - (kSpans - 1 - i)) * span);
  return {{"every_ms", span}, {"times", times}, {"waiting", waiting},
          {"active", active}, {"ended", ended}, {"failed", failed}};
}

Json events_of(const std::deque<QueueEvent>& events, const std::string& job) {
  Json found = Json::array();
  for (const auto& event : events) {
    if (event.job != job) continue;
    found.push_back({{"time_ms", event.time_ms},
                     {"event", event.event},
                     {"from", event.from},
                     {"to", event.to},
                     {"fence", event.fence},
                     {"agent", event.agent},
                     {"why", event.why}});
  }
  return found;
}

}  // namespace foretime::cli
