#include "tests/simulation/cluster/agents.h"

#include <exception>

#include <fmt/format.h>

#include "jobs/queue/queue.h"
#include "tests/simulation/cluster/simulated_client.h"

namespace foretime::simulation {
namespace {

jobs::AgentOptions agent_options(const std::string& name) {
  jobs::AgentOptions options;
  options.name = name;
  options.cpus = 2;
  options.roots.data = {kDataRoot};
  options.roots.runs = kRunRoot;
  options.program = "/simulated/foretime";
  options.lease_term = jobs::Milliseconds(static_cast<int64_t>(kLeaseTerm * 1000));
  return options;
}

}  // namespace

void Agents::start(int64_t node) {
  auto& slot = agents_[node];
  slot = std::make_shared<Process>();
  slot->name = fmt::format("node{}.{}", node, ++incarnations_);
  slot->node = node;
  slot->process = env_.next_process();
  slot->world = std::make_unique<SimulatedWorld>(env_, trainings_, node);
  env_.node_of[slot->process] = node;
  env_.disturbed(0);
  env_.scheduler.start(slot->process, [this, slot] { run(slot); });
}

void Agents::run(const std::shared_ptr<Process>& slot) {
  const auto make_queue = [this, slot]() -> std::shared_ptr<jobs::JobQueue> {
    const auto client =
        std::make_shared<SimulatedClient>(env_.redis, slot->node, [world = slot->world.get()] { world->wake(); });
    return {client, &client->queue};
  };
  try {
    jobs::Agent agent(agent_options(slot->name), make_queue, {}, env_.log, *slot->world);
    slot->agent = &agent;
    agent.run();
    slot->agent = nullptr;
    env_.trace(slot->name + " has ended");
  } catch (const std::exception& error) {
    slot->agent = nullptr;
    if (env_.scheduler.dying()) return;
    // An agent may fail to start where its folder or its Redis is in trouble; a service manager starts it again.
    env_.trace(fmt::format("{} ends: {}", slot->name, error.what()));
    if (!env_.in_trouble()) env_.fail(fmt::format("{} ended without cause: {}", slot->name, error.what()));
  }
  env_.scheduler.at(env_.scheduler.now() + env_.scheduler.integer(1, 120) * kSecond, [this, slot] {
    if (agents_[slot->node] == slot) start(slot->node);
  });
}

void Agents::kill(int64_t node, bool with_trials) {
  const auto slot = agents_[node];
  if (!slot || env_.scheduler.now() < env_.frozen_until[node]) return;
  ++env_.report.agents_killed;
  env_.disturbed(0);
  env_.trace(fmt::format("kill -9 {}", slot->name));
  env_.scheduler.kill(slot->process);
  slot->agent = nullptr;
  if (with_trials) trainings_.kill_all_on(node);
  env_.scheduler.at(env_.scheduler.now() + env_.scheduler.integer(1, 300) * kSecond, [this, node, slot] {
    if (agents_[node] == slot) start(node);
  });
}

void Agents::drain(int64_t node) {
  const auto slot = agents_[node];
  if (slot == nullptr || slot->agent == nullptr) return;
  env_.trace("drain " + slot->name);
  slot->agent->request_stop();
  if (env_.scheduler.chance(0.3)) slot->agent->request_stop();
}

std::set<std::string> Agents::names() const {
  std::set<std::string> names;
  for (const auto& [node, slot] : agents_) {
    if (slot != nullptr && slot->agent != nullptr) names.insert(slot->name);
  }
  return names;
}

}  // namespace foretime::simulation
