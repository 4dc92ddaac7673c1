#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hex_digest.h"
#include "jobs/error.h"
#include "jobs/queue/job_hash.h"
#include "jobs/queue/queue_reader.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"

/// Programs of different versions on one queue. A newer one is this one with higher numbers.
namespace foretime::jobs {
namespace {

using ::testing::HasSubstr;

class VersionSkew : public ::testing::Test {
 protected:
  static constexpr Protocol kNewer{.version = 4, .format = 5};
  VersionSkew()
      : settings_(fresh_settings()),
        backend_(shared_server().url(), settings_),
        newer_client_(shared_server().url()),
        newer_(newer_client_, settings_, QueueClock::test_key, kNewer) {}

  RedisQueue& queue() { return backend_.queue(); }
  ClaimRequest request() { return {"agent", fmt::format("t{}", ++tokens_), 8, 0, Milliseconds(1000)}; }

  QueueSettings settings_;
  RedisBackend backend_;
  RedisClient newer_client_;
  RedisQueue newer_;
  int tokens_ = 0;
};

/// The program before there were protocols and formats: its scripts as they were (tests/jobs/queue/protocol_1), called
/// as it called them.
class FirstProgram {
 public:
  FirstProgram(RedisClient& client, std::string prefix) : client_(client), prefix_("{" + std::move(prefix) + "}:") {}

  using Arguments = std::vector<std::string>;
  Reply run(const std::string& name, const Arguments& arguments) {
    const auto folder = testing::source_dir() / "tests/jobs/queue/protocol_1";
    std::string text;
    for (const auto& part : {std::string("clock_test"), std::string("common"), name})
      text += files().read((folder / (part + ".lua")).string());
    Arguments all = {"10000"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return client_.script(text, hex_digest("SHA1", text), {prefix_}, all);
  }
  std::string word(const std::string& name, const Arguments& arguments) {
    return text_of(*run(name, arguments)->element[0]);
  }
  std::string submit(const JobSpec& job) {
    Arguments arguments = {job.id, job.sweep, std::to_string(job.trial), std::to_string(job.after.size())};
    arguments.insert(arguments.end(), job.after.begin(), job.after.end());
    for (const auto& [field, value] :
         std::vector<std::pair<std::string, std::string>>{{"kind", to_string(job.kind)},
                                                          {"name", job.name},
                                                          {"sweep", job.sweep},
                                                          {"trial", std::to_string(job.trial)},
                                                          {"settings", job.settings},
                                                          {"parameters", nlohmann::json(job.parameters).dump()},
                                                          {"deferred", job.deferred ? "1" : ""},
                                                          {"metric", job.metric},
                                                          {"goal", job.maximize ? "maximize" : "minimize"},
                                                          {"after", nlohmann::json(job.after).dump()},
                                                          {"ranks", std::to_string(job.resources.ranks)},
                                                          {"cpus", std::to_string(job.resources.cpus)},
                                                          {"gpus", std::to_string(job.resources.gpus)},
                                                          {"priority", std::to_string(job.priority)},
                                                          {"max_attempts", std::to_string(job.max_attempts)}})
      arguments.insert(arguments.end(), {field, value});
    return word("submit", arguments);
  }
  std::string create_sweep(const SweepSpec& sweep) {
    Arguments arguments = {sweep.id};
    const auto fields = sweep_fields(sweep);
    arguments.insert(arguments.end(), fields.begin(), fields.end());
    return word("create_sweep", arguments);
  }
  std::optional<Lease> claim(const std::string& token) {
    const auto reply = run("claim", {"first", token, "8", "0", "1000"});
    if (text_of(*reply->element[0]) == "none") return std::nullopt;
    const auto fields = fields_of(*reply->element[3]);
    return Lease{
        .job = text_of(*reply->element[1]), .agent = "first", .fence = std::stoll(fields.at("fence")), .token = token};
  }
  std::string finish(const Lease& lease, const std::string& outcome) {
    return word("finish", {lease.job, std::to_string(lease.fence), lease.token, "first", outcome, "", "0.5", "", "",
                           "0", "1", "0", "1000", "1000"});
  }
  std::string renew(const Lease& lease) {
    return word("renew", {lease.job, std::to_string(lease.fence), lease.token, "first", "1000"});
  }
  void reap() { run("reap", {"2592000000"}); }

 private:
  RedisClient& client_;
  std::string prefix_;
};

/// The program before records were packed: its scripts as they were (tests/jobs/queue/protocol_2).
class SecondProgram {
 public:
  SecondProgram(RedisClient& client, std::string prefix) : client_(client), prefix_("{" + std::move(prefix) + "}:") {}

  using Arguments = std::vector<std::string>;
  Reply run(const std::string& name, const Arguments& arguments) {
    const auto part = [](const std::string& script) {
      return files().read((testing::source_dir() / "tests/jobs/queue/protocol_2" / (script + ".lua")).string());
    };
    const auto script = part(name);
    const auto flags = script.find('\n') + 1;  // Redis wants them to be the first line
    const auto text = script.substr(0, flags) + "local PROTOCOL, FORMAT, SWEEP_FORMAT = 2, 3, 2\n" +
                      part("clock_test") + part("common") + script.substr(flags);
    Arguments all = {"10000"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return client_.script(text, hex_digest("SHA1", text), {prefix_}, all);
  }
  std::string word(const std::string& name, const Arguments& arguments) {
    const auto reply = run(name, arguments);
    return text_of(*reply->element[reply->elements > 1 && name == "submit" ? 1 : 0]);
  }
  std::string submit(const JobSpec& job) {
    const auto fields = spec_fields(job);
    Arguments arguments = {job.id, job.sweep, std::to_string(job.trial), std::to_string(job.after.size())};
    arguments.insert(arguments.end(), job.after.begin(), job.after.end());
    arguments.push_back(std::to_string(fields.size() + 6));
    arguments.insert(arguments.end(), fields.begin(), fields.end());
    arguments.insert(arguments.end(), {"ranks", "1", "cpus", "1", "max_attempts", "3"});
    return word("submit", arguments);
  }
  Arguments claim_arguments(const std::string& token) { return {"second", token, "8", "0", "1000", ""}; }
  Lease claim(const std::string& token) {
    const auto reply = run("claim", claim_arguments(token));
    const auto fields = packed_fields(text_of(*reply->element[3]));
    return {
        .job = text_of(*reply->element[1]), .agent = "second", .fence = std::stoll(fields.at("fence")), .token = token};
  }
  Arguments finish_arguments(const Lease& lease, const std::string& outcome) {
    return {lease.job,   std::to_string(lease.fence),
            lease.token, "second",
            outcome,     "",
            "0.5",       "",
            "",          "0",
            "1",         "0",
            "1000",      "1000",
            "",          "20",
            ""};
  }
  std::string finish(const Lease& lease, const std::string& outcome) {
    return word("finish", finish_arguments(lease, outcome));
  }
  std::string renew(const Lease& lease) {
    return word("renew", {lease.job, std::to_string(lease.fence), lease.token, "second", "1000"});
  }

 private:
  RedisClient& client_;
  std::string prefix_;
};

/// A queue with jobs of the second program in every state goes over to this one, and closes behind it.
TEST_F(VersionSkew, AQueueOfTheSecondProgramIsTakenOver) {
  SecondProgram second(newer_client_, settings_.prefix);
  for (const auto* id : {"done", "failed", "delayed", "active", "lost", "waiting"})
    EXPECT_EQ(second.submit(job_named(id)), "ok");
  auto blocked = job_named("blocked");
  blocked.after = {"active"};
  EXPECT_EQ(second.submit(blocked), "ok");
  EXPECT_EQ(second.finish(second.claim("1"), "succeeded"), "ok");
  EXPECT_EQ(second.finish(second.claim("2"), "failed"), "ok");
  EXPECT_EQ(second.finish(second.claim("3"), "error"), "ok");
  const auto active = second.claim("4"), lost = second.claim("5");
  const auto refused = [&] {
    EXPECT_THAT(testing::message_of<JobRefused>([&] { queue().claim(request()); }),
                HasSubstr("of an earlier foretime"));
  };
  refused();
  EXPECT_EQ(second.renew(active), "proceed");
  EXPECT_EQ(second.finish(active, "succeeded"), "ok");
  refused();
  // The other lease expires, in a silence that its holder is forgiven once, and the retry is due.
  backend_.advance(1500);
  int64_t losses = 0;
  for (int i = 0; i < 4; ++i) {
    losses += queue().reap().lost_leases;
    backend_.advance(400);
  }
  EXPECT_EQ(losses, 1);

  for (const auto& [name, arguments] :
       std::map<std::string, std::vector<std::string>>{{"claim", second.claim_arguments("6")},
                                                       {"finish", second.finish_arguments(lost, "succeeded")},
                                                       {"reap", {"0", "0", "10", "1000", "1000"}},
                                                       {"renew", {lost.job, "1", lost.token, "second", "1000"}}}) {
    const auto reply = second.run(name, arguments);
    EXPECT_EQ(text_of(*reply->element[0]), "refused");
    EXPECT_THAT(text_of(*reply->element[1]), HasSubstr("needs programs of protocol 3, and this one has protocol 2"));
  }
  queue().retry("failed");
  std::map<std::string, Lease> leases;
  for (int i = 0; i < 5; ++i) {
    const auto lease = queue().claim(request()).value();
    EXPECT_EQ(lease.spec, lease.job == "blocked" ? blocked : job_named(lease.job));
    leases[lease.job] = lease;
  }
  EXPECT_FALSE(queue().claim(request()));
  EXPECT_EQ(leases.at("lost").fence, 2);
  EXPECT_EQ(leases.at("delayed").attempt, 2);
  for (const auto& [job, lease] : leases) {
    EXPECT_EQ(queue().renew(lease, Milliseconds(1000)), Directive::proceed);
    EXPECT_TRUE(queue().finish(lease, {.objective = 0.25}, 0));
    EXPECT_TRUE(queue().finish(lease, {.objective = 0.25}, 0)) << "again, after a lost answer";
  }
  EXPECT_EQ(queue().find("done")->objective, 0.5);
  for (const auto& broken : broken_invariants(backend_.dump(), backend_.events())) ADD_FAILURE() << broken;
}

/// Jobs that were submitted, run and ended by the first program are all there for this one, and go on.
TEST_F(VersionSkew, RecordsOfTheFirstProgramAreReadAndGoOn) {
  FirstProgram first(newer_client_, settings_.prefix);
  EXPECT_EQ(first.create_sweep({.id = "s", .name = "sweep", .method = "grid", .metric = "opa", .halving = {{1}, 2}}),
            "ok");
  for (const auto* id : {"done", "failed", "active", "waiting"}) {
    auto spec = job_named(id);
    spec.sweep = "s";
    EXPECT_EQ(first.submit(spec), "ok");
  }
  auto blocked = job_named("blocked");
  blocked.after = {"active"};
  EXPECT_EQ(first.submit(blocked), "ok");
  EXPECT_EQ(first.finish(first.claim("1").value(), "succeeded"), "ok");
  EXPECT_EQ(first.finish(first.claim("2").value(), "failed"), "ok");
  auto active = first.claim("3").value();
  first.run("heartbeat_agent", {"first", "host", "0.1.0", "1", "8", "0", "1", ""});
  first.reap();

  QueueReader reader(backend_.client(), settings_);
  for (const auto& [id, state] : std::map<std::string, JobState>{{"done", JobState::succeeded},
                                                                 {"failed", JobState::failed},
                                                                 {"active", JobState::active},
                                                                 {"waiting", JobState::waiting},
                                                                 {"blocked", JobState::blocked}}) {
    const auto record = reader.job(id).value();
    EXPECT_EQ(record.unreadable, "");
    EXPECT_EQ(record.state, state) << id;
  }
  EXPECT_EQ(reader.job("done")->objective, 0.5);
  EXPECT_EQ(reader.sweep("s")->spec.halving.rungs, std::vector<int64_t>{1});
  EXPECT_EQ(reader.statistics().agents.at(0).version, "0.1.0");
  // Its agent still runs a job, which nobody takes from it.
  EXPECT_THAT(testing::message_of<JobRefused>([&] { queue().claim(request()); }),
              HasSubstr("is worked on by agents of an earlier foretime"));
  EXPECT_THAT(testing::message_of<JobRefused>([&] { queue().submit(job_named("new")); }), HasSubstr("end them"));
  EXPECT_EQ(first.renew(active), "proceed");
  EXPECT_EQ(first.finish(active, "succeeded"), "ok");
  // From here on the queue is ours: the result unblocked the rest, and what failed is tried again.
  EXPECT_EQ(queue().claim(request())->job, "waiting");
  EXPECT_EQ(queue().reap().lost_leases, 0);
  const auto lease = queue().claim(request()).value();
  EXPECT_EQ(lease.job, "blocked");
  EXPECT_EQ(lease.spec, blocked);
  queue().retry("failed");
  EXPECT_EQ(queue().claim(request())->job, "failed");
  EXPECT_EQ(queue().cancel_sweep("s"), 2);
  for (const auto& broken : broken_invariants(backend_.dump(), backend_.events())) ADD_FAILURE() << broken;
}

/// What an agent of the first program left behind when it died is lost like any lease, comes again with a higher fence,
/// and ends as a job of ours does.
TEST_F(VersionSkew, LeasesOfTheFirstProgramThatExpiredAreTaken) {
  FirstProgram first(newer_client_, settings_.prefix);
  EXPECT_EQ(first.submit(job_named("a")), "ok");
  EXPECT_EQ(first.submit(job_named("b")), "ok");
  const auto old = first.claim("1").value();
  backend_.advance(2000);
  EXPECT_EQ(queue().reap().lost_leases, 1);
  const auto lease = queue().claim(request()).value();
  EXPECT_EQ(lease.job, "a");
  EXPECT_EQ(lease.spec, job_named("a"));
  EXPECT_EQ(lease.fence, old.fence + 1);
  EXPECT_EQ(queue().renew(lease, Milliseconds(3000)), Directive::proceed);
  EXPECT_EQ(queue().renew(old, Milliseconds(3000)), Directive::lost);
  const auto next = queue().finish_and_claim(lease, {.objective = 0.5}, 0, request());
  EXPECT_TRUE(next.finished);
  EXPECT_EQ(next.next.value().job, "b");
  EXPECT_TRUE(queue().finish(lease, {.objective = 0.5}, 0)) << "again, after a lost answer";
  EXPECT_TRUE(queue().finish(*next.next, {.outcome = Outcome::error}, 0));
  EXPECT_EQ(queue().find("a")->objective, 0.5);
  EXPECT_EQ(queue().find("a")->agent, "agent");
  EXPECT_EQ(queue().find("b")->failures, 1);
  for (const auto& broken : broken_invariants(backend_.dump(), backend_.events())) ADD_FAILURE() << broken;
}

/// The first program asks for no protocol. It ends over a key, and changes nothing.
TEST_F(VersionSkew, TheFirstProgramEndsAtAQueueOfOurs) {
  FirstProgram first(newer_client_, settings_.prefix);
  EXPECT_EQ(first.submit(job_named("a")), "ok");
  EXPECT_EQ(first.finish(first.claim("1").value(), "succeeded"), "ok");
  queue().submit(job_named("b"));
  const auto lease = queue().claim(request()).value();
  const auto before = backend_.dump();
  const auto refused = [](auto call) { EXPECT_THAT(testing::message_of<RedisRefused>(call), HasSubstr("WRONGTYPE")); };
  refused([&] { first.claim("2"); });
  refused([&] { first.renew(lease); });
  refused([&] { first.finish(lease, "succeeded"); });
  refused([&] { first.reap(); });
  refused([&] { first.run("heartbeat_agent", {"first", "host", "0.1.0", "1", "8", "0", "1", ""}); });
  EXPECT_EQ(difference(before, backend_.dump()), "");
  EXPECT_EQ(first.submit(job_named("late")), "ok") << "of a format that is read";
  EXPECT_EQ(queue().claim(request())->spec, job_named("late"));
}

/// They keep it in a key of its own; one that is 40 days ahead for a while forgets nothing after an upgrade either.
TEST_F(VersionSkew, TheClockThatEarlierProgramsTrustedGoesOn) {
  queue().submit(job_named("j"));
  EXPECT_TRUE(queue().finish(queue().claim(request()).value(), {}, 0));
  const auto now = std::to_string(backend_.now());
  backend_.client().call({"HSET", backend_.key("clock"), "seen", now, "trusted", now});
  backend_.advance(int64_t{40} * 24 * 3600 * 1000);
  EXPECT_EQ(queue().reap().expired, 0);
  EXPECT_TRUE(queue().find("j"));
}

/// Before the first reaping, too, what ends while the clock is behind is as old as the clock that they trusted.
TEST_F(VersionSkew, EndsFollowTheClockThatEarlierProgramsTrusted) {
  for (const auto* id : {"a", "b"}) queue().submit(job_named(id));
  const auto ahead = std::to_string(backend_.now() + int64_t{10} * 24 * 3600 * 1000);
  const auto first = queue().claim(request()).value();
  backend_.client().call({"HSET", backend_.key("clock"), "seen", std::to_string(backend_.now()), "trusted", ahead});
  ASSERT_TRUE(queue().finish_and_claim(first, {}, 0, request()).next);
  EXPECT_EQ(text_of(*backend_.client().call({"ZSCORE", backend_.key("state:succeeded"), "a"})), ahead);
}

/// One field counts what earlier programs counted in three.
TEST_F(VersionSkew, TotalsOfEarlierProgramsGoOn) {
  backend_.client().call({"HSET", backend_.key("totals"), "claimed", "7", "succeeded", "5", "results", "5"});
  for (const auto* id : {"a", "b"}) queue().submit(job_named(id));
  const auto first = queue().claim(request()).value();
  const auto second = queue().finish_and_claim(first, {}, 0, request()).next.value();
  EXPECT_TRUE(queue().finish(second, {}, 0));
  const auto totals = QueueReader(backend_.client(), settings_).statistics().totals;
  EXPECT_EQ(totals.at("claimed"), 9);
  EXPECT_EQ(totals.at("succeeded"), 7);
  EXPECT_EQ(totals.at("results"), 7);
}

TEST_F(VersionSkew, AJobOfALaterFormatWaitsForAnAgentThatReadsIt) {
  newer_.submit(job_named("new"));
  queue().submit(job_named("plain"));
  EXPECT_EQ(queue().claim(request())->job, "plain");
  EXPECT_FALSE(queue().claim(request()));
  EXPECT_TRUE(queue().waiting().empty()) << "it would keep --until-empty from ending";
  EXPECT_EQ(newer_.waiting(), (std::map<Demand, int64_t>{{{1, 0}, 1}}));
  const auto record = QueueReader(backend_.client(), settings_).job("new").value();
  EXPECT_THAT(record.unreadable, HasSubstr("its record has format 5, and this program reads 1 to 4"));
  EXPECT_THAT(testing::message_of<JobsError>([&] { queue().find("new"); }), HasSubstr("format 5"));
  const auto lease = newer_.claim(request());
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->job, "new");
  EXPECT_TRUE(newer_.finish(*lease, {}, 0));
}

/// Whoever moves such a job back to waiting, it waits where only newer agents look.
TEST_F(VersionSkew, EarlierProgramsMoveJobsOfALaterFormatWithoutRunningThem) {
  newer_.create_sweep({.id = "s", .name = "sweep", .method = "grid"});
  auto spec = job_named("new");
  spec.sweep = "s";
  newer_.submit(spec);
  const auto only_newer = [&] {
    EXPECT_FALSE(queue().claim(request()));
    auto lease = newer_.claim(request());
    EXPECT_TRUE(lease);
    return lease.value();
  };
  auto lease = only_newer();
  for (int i = 0; i < 3; ++i) backend_.advance(400), queue().reap();  // it is lost
  lease = only_newer();
  newer_.finish(lease, {.outcome = Outcome::error}, 0);
  backend_.advance(60'000);
  queue().reap();  // promotes it
  lease = only_newer();
  newer_.finish(lease, {.outcome = Outcome::failed}, 0);
  queue().retry("new");
  queue().pause("s");
  EXPECT_FALSE(newer_.claim(request()));  // sets it aside
  queue().resume("s");
  queue().set_priority("new", 3);
  lease = only_newer();
  newer_.finish(lease, {.outcome = Outcome::preempted}, 0);
  EXPECT_EQ(queue().cancel_sweep("s"), 1);
  EXPECT_FALSE(newer_.claim(request()));
}

TEST_F(VersionSkew, AQueueOfALaterProtocolRefusesEarlierPrograms) {
  queue().submit(job_named("j"));
  const auto lease = queue().claim(request()).value();
  backend_.client().call({"HSET", backend_.key("settings"), "protocol", "4"});
  const auto before = backend_.dump();
  const auto refused = [](auto call) {
    EXPECT_THAT(
        testing::message_of<JobRefused>(call),
        HasSubstr("needs programs of protocol 4, and this one has protocol 3: use the newer foretime here too"));
  };
  refused([&] { queue().submit(job_named("k")); });
  refused([&] { queue().create_sweep({.id = "s", .name = "sweep", .method = "grid"}); });
  refused([&] { queue().claim(request()); });
  refused([&] { queue().renew(lease, Milliseconds(5000)); });
  refused([&] { queue().report(lease, {}); });
  refused([&] { queue().finish(lease, {}, 0); });
  refused([&] { queue().finish_and_claim(lease, {}, 0, request()); });
  refused([&] { queue().cancel("j"); });
  refused([&] { queue().reap(); });
  EXPECT_EQ(difference(before, backend_.dump()), "");
  EXPECT_TRUE(newer_.finish(lease, {}, 0));
  EXPECT_EQ(QueueReader(backend_.client(), settings_).job("j")->state, JobState::succeeded);
}

}  // namespace
}  // namespace foretime::jobs
