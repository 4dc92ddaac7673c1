#include "tests/jobs/queue/queue_backends.h"

#include <atomic>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/files.h"
#include "jobs/error.h"
#include "jobs/queue/packed_record.h"
#include "jobs/queue/queue.h"
#include "tests/simulation/redis/model_connection.h"
#include "tests/support/paths.h"
#include "tests/support/processes.h"

namespace foretime::jobs {
namespace {

std::string label(size_t index) { return fmt::format("{:04}", index); }

std::map<std::string, std::string> content(RedisClient& client, const std::string& key) {
  std::map<std::string, std::string> all;
  const auto type = text_of(*client.call({"TYPE", key}));
  if (type == "hash") {
    const auto texts = texts_of(*client.call({"HGETALL", key}));
    for (size_t i = 0; i + 1 < texts.size(); i += 2) all[texts[i]] = texts[i + 1];
  } else if (type == "list") {
    const auto texts = texts_of(*client.call({"LRANGE", key, "0", "-1"}));
    for (size_t i = 0; i < texts.size(); ++i) all[label(i)] = texts[i];
  } else if (type == "set") {
    for (const auto& member : texts_of(*client.call({"SMEMBERS", key}))) all[member] = "member";
  } else if (type == "zset") {
    const auto texts = texts_of(*client.call({"ZRANGE", key, "0", "-1", "WITHSCORES"}));
    for (size_t i = 0; i + 1 < texts.size(); i += 2) all[texts[i]] = "@" + number_text(std::stod(texts[i + 1]));
  } else {
    all["value"] = text_of(*client.call({"GET", key}));
  }
  return all;
}

/// Not of the state that is compared: scratch for lost answers, the stream, the test's own, a superset of what is used.
bool is_left_out(const std::string& key) {
  return key.rfind("token:", 0) == 0 || key == "events" || key == "test_clock" || key == "test_fast_paths" ||
         key == "shapes";
}

/// A job's hash with each field by itself, as if nothing were packed or left out.
void spread(std::map<std::string, std::string>& fields) {
  fields = unpacked(fields, "a job");
  fields.erase("spec");
  fields.erase("lease");
  const auto state = parse_job_state(fields.at("state"));
  if (state == JobState::succeeded) {
    if (fields["finished_by"].empty()) fields["finished_by"] = fields["fence"] + ":" + fields["token"];
    if (fields["attempt"] == "1") fields.erase("attempt");
  } else if (fields["updated_ms"].empty()) {
    fields["updated_ms"] = fields["claimed_ms"].empty() ? fields["submitted_ms"] : fields["claimed_ms"];
  }
  if (is_final(state) || fields["token"] == "-") {
    fields.erase("token");
    fields.erase("term_ms");
  }
}

/// For the cluster's bus, which Redis opens even where it listens on a Unix socket only.
int free_port() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(descriptor);
  if (!bound) throw std::runtime_error("no free port on 127.0.0.1");
  return ntohs(address.sin_port);
}

}  // namespace

const Scripts& scripts_by_test_clock() {
  static const Scripts all = [] {
    const auto text_of = [](const char* path) { return files().read((testing::source_dir() / path).string()); };
    const auto clock = text_of("jobs/queue/scripts/modules/clock.lua");
    Scripts scripts;
    for (const auto& [name, script] : queue_scripts()) {
      auto text = script.text;
      scripts[name] =
          script_of(text.replace(text.find(clock), clock.size(), text_of("tests/jobs/queue/test_clock.lua")));
    }
    return scripts;
  }();
  return all;
}

RedisBackend::RedisBackend(const RedisUrl& url, QueueSettings settings, RedisClient::Connect connect,
                           const Scripts& scripts)
    : client_(url), settings_(std::move(settings)), queue_(client_, settings_, scripts) {
  client_.connect_by(std::move(connect));
  set_clock(now_);
}

MemoryQueue::Dump RedisBackend::dump() { return dump_keys(client_, settings_.prefix); }

MemoryQueue::Dump dump_keys(RedisClient& client, const std::string& prefix) {
  MemoryQueue::Dump all;
  const auto start = "{" + prefix + "}:";
  std::set<std::string> shapes;
  for (const auto& name : texts_of(*client.call({"KEYS", start + "*"}))) {
    const auto rest = name.substr(start.size());
    if (rest == "shapes")
      for (const auto& [shape, member] : content(client, name)) shapes.insert(shape);
    if (is_left_out(rest)) continue;
    auto fields = content(client, name);
    if (rest == "paused") fields["value"] = "set";
    if (rest.starts_with("job:") && rest.find(':', 4) == std::string::npos && fields.count("state") != 0)
      spread(fields);
    if (rest == "settings") fields.erase("protocol");
    if (rest.starts_with("artifact:")) fields["value"] = "stored";
    std::erase_if(fields, [&](const auto& entry) {
      return entry.second.empty() || entry.second == "0" || (entry.first == "eta_s" && entry.second == "-1");
    });
    if (!fields.empty()) all[rest] = fields;
  }
  for (const auto& [name, fields] : all)
    if (name.rfind("waiting:", 0) == 0 && shapes.count(name.substr(8)) == 0)
      all["broken"]["no shape for " + name] = "!";
  return all;
}

std::vector<MemoryQueue::Event> RedisBackend::events() {
  std::vector<MemoryQueue::Event> all;
  const auto reply = client_.call({"XRANGE", key("events"), "-", "+"});
  for (size_t i = 0; i < reply->elements; ++i) {
    for (const auto& fields : transitions_of(fields_of(*reply->element[i]->element[1])))
      all.push_back({fields.at("event"), fields.at("job"), fields.at("from"), fields.at("to"),
                     std::stoll(fields.at("fence")), fields.at("agent")});
  }
  return all;
}

std::unique_ptr<Backend> model_backend(QueueSettings settings) {
  const auto model = std::make_shared<simulation::RedisModel>([] { return kStart * 1000; });
  RedisUrl url;
  url.host = "model";
  return std::make_unique<RedisBackend>(url, std::move(settings), [model](const RedisUrl&) {
    return std::make_unique<simulation::ModelConnection>(model);
  });
}

QueueSettings fresh_settings(QueueSettings settings) {
  static std::atomic<int> number{0};
  settings.prefix = fmt::format("test{}", ++number);
  return settings;
}

testing::RedisServer& shared_server() {
  static testing::RedisServer server(testing::RedisServer::Options{false, "no", {}});
  return server;
}

void own_slot(RedisClient& client, const std::string& prefix) {
  const auto slot = std::to_string(integer_of(*client.call({"CLUSTER", "KEYSLOT", "{" + prefix + "}:"})));
  try {
    client.call({"CLUSTER", "ADDSLOTS", slot});
  } catch (const RedisRefused& error) {
    if (std::string(error.what()).find("already busy") == std::string::npos) throw;
  }
}

/// Starts again where somebody else took the port that was free a moment before.
std::unique_ptr<testing::RedisServer> start_cluster() {
  for (int attempts = 20;; --attempts) {
    try {
      return std::make_unique<testing::RedisServer>(testing::RedisServer::Options{
          false,
          "no",
          {"cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-require-full-coverage no",
           "bind 127.0.0.1", "cluster-port " + std::to_string(free_port())}});
    } catch (const std::runtime_error&) {
      if (attempts == 0) throw;
    }
  }
}

testing::RedisServer& shared_cluster() {
  static const auto server = [] {
    auto started = start_cluster();
    RedisClient client(started->url());
    own_slot(client, "first");
    const bool ready = testing::eventually([&] {
      return text_of(*client.call({"CLUSTER", "INFO"})).find("cluster_state:ok") != std::string::npos;
    });
    if (!ready) throw std::runtime_error("the cluster of one node did not come up");
    return started;
  }();
  return *server;
}

std::vector<std::string> broken_invariants(const MemoryQueue::Dump& dump,
                                           const std::vector<MemoryQueue::Event>& events) {
  std::vector<std::string> broken;
  const auto keys_of = [&](const std::string& key) {
    const auto found = dump.find(key);
    std::set<std::string> members;
    if (found != dump.end())
      for (const auto& [member, value] : found->second) members.insert(member);
    return members;
  };
  const auto equal = [&](const std::string& what, const std::set<std::string>& a, const std::set<std::string>& b) {
    if (a != b) broken.push_back(fmt::format("{}: {} against {}", what, a.size(), b.size()));
  };
  std::map<std::string, std::set<std::string>> by_state;
  std::set<std::string> waiting, held, indexed;
  std::multiset<std::string> in_states;
  for (const auto& [key, fields] : dump) {
    if (key == "broken")
      for (const auto& [what, value] : fields) broken.push_back(what);
    for (const auto& [member, value] : fields) {
      if (key.rfind("waiting:", 0) == 0 && !waiting.insert(member).second) broken.push_back("waits twice: " + member);
      if (key.rfind("held:", 0) == 0 && !held.insert(member).second) broken.push_back("held twice: " + member);
      if (key.rfind("state:", 0) == 0) in_states.insert(member);
    }
    if (key.rfind("job:", 0) != 0 || key.find(':', 4) != std::string::npos) continue;
    const auto id = key.substr(4);
    indexed.insert(id);
    by_state[fields.at("state")].insert(id);
    const auto results = fields.find("results");
    const bool has_result = results != fields.end();
    if (has_result != (fields.at("state") == "succeeded") || (has_result && results->second != "1"))
      broken.push_back(id + ": results do not agree with its state");
  }
  equal("ids", indexed, keys_of("ids"));
  equal("states", indexed, {in_states.begin(), in_states.end()});
  if (in_states.size() != indexed.size()) broken.push_back("a job in two states");
  for (const auto& [state, ids] : by_state) equal("state:" + state, ids, keys_of("state:" + state));
  equal("leases", by_state["active"], keys_of("leases"));
  equal("delayed", by_state["delayed"], keys_of("delayed"));
  equal("waiting", by_state["waiting"], waiting);
  equal("held", by_state["held"], held);

  std::map<std::string, int64_t> fences;
  std::map<std::string, int> finished;
  for (const auto& event : events) {
    if (event.event == "forget") fences.erase(event.job), finished.erase(event.job);
    if (event.event == "claim" && event.fence <= fences[event.job])
      broken.push_back(event.job + ": fence did not rise");
    if (event.event == "claim") fences[event.job] = event.fence;
    if (event.to == "succeeded" && event.from == "active" && ++finished[event.job] > 1)
      broken.push_back(event.job + ": succeeded twice");
  }
  return broken;
}

std::string difference(const MemoryQueue::Dump& expected, const MemoryQueue::Dump& found) {
  const auto lines = [](const MemoryQueue::Dump& dump) {
    std::set<std::string> all;
    for (const auto& [key, fields] : dump)
      for (const auto& [field, value] : fields) all.insert(key + " " + field + " = " + value);
    return all;
  };
  const auto a = lines(expected), b = lines(found);
  std::string text;
  for (const auto& line : a)
    if (b.count(line) == 0) text += "expected: " + line + "\n";
  for (const auto& line : b)
    if (a.count(line) == 0) text += "found:    " + line + "\n";
  return text;
}

JobSpec job_named(const std::string& id) {
  return {.id = id,
          .name = "job " + id,
          .settings = "trainer: {steps: 10}\n",
          .parameters = {{"optimizer.learning_rate", "0.01"}},
          .metric = "opa"};
}

std::vector<std::string> documented_acl(const std::string& name, const std::string& prefix) {
  std::ifstream document(testing::source_dir() / "docs/reference/jobs.md");
  const std::string command = "redis-cli ";
  for (std::string line; std::getline(document, line);) {
    if (!line.starts_with(command + "ACL SETUSER " + name + " ")) continue;
    for (std::string more; line.ends_with('\\') && std::getline(document, more);) {
      line.pop_back();
      line += more;
    }
    line.erase(0, command.size());
    std::erase(line, '\'');
    for (size_t at = 0; (at = line.find("{foretime}", at)) != std::string::npos; at += prefix.size() + 2)
      line.replace(at, 10, "{" + prefix + "}");
    std::istringstream words(line);
    return {std::istream_iterator<std::string>(words), {}};
  }
  throw std::runtime_error("docs/reference/jobs.md has no redis-cli ACL SETUSER " + name);
}

}  // namespace foretime::jobs
