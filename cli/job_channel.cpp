#include "cli/job_channel.h"

namespace foretime::cli {

using Message = jobs::ProgressMessage;

namespace {

/// Returns the values that the agent keeps of a report: the numbers of its line in metrics.jsonl that curves show.
std::map<std::string, double> values_of(const worker::StepEvent& event) {
  const auto& report = *event.report;
  const auto& ranks = report.ranks;
  std::map<std::string, double> values = {{"loss", event.loss},
                                          {"learning_rate", report.learning_rate},
                                          {"gradient_norm", report.gradient_norm},
                                          {"candidates_per_second", report.candidates_per_second},
                                          {"comm_wait_ms", ranks.comm_wait_ms},
                                          {"comm_exposed_share", ranks.comm_exposed_share},
                                          {"memory_mib", ranks.memory_mib},
                                          {"cpu_cores", ranks.cpu_cores}};
  if (ranks.gpu_percent >= 0) {
    values["gpu_percent"] = ranks.gpu_percent;
    values["gpu_memory_mib"] = ranks.gpu_memory_mib;
  }
  return values;
}

}  // namespace

/// Sends the events of one model's training to the agent.
class JobListener final : public worker::TrainingListener {
 public:
  JobListener(JobChannel& channel, int64_t index, int64_t models) : channel_(channel), index_(index), models_(models) {}

  bool stop_requested() override { return channel_.sender_ && channel_.sender_->stop_requested(); }
  void on_step(const worker::StepEvent& event) override {
    if (!channel_.sender_) return;
    auto& progress = channel_.progress_;
    progress.step = index_ * event.total_steps + event.step;
    progress.total_steps = models_ * event.total_steps;
    progress.loss = event.loss;
    progress.eta_seconds =
        event.seconds_per_step < 0 ? -1 : event.seconds_per_step * (progress.total_steps - progress.step);
    if (event.report && index_ == 0) progress.values = values_of(event);
    channel_.sender_->send(progress);
    progress.values.clear();
  }
  void on_scored(int64_t candidates) override {
    if (const auto scored = channel_.scored()) scored(candidates);
  }
  void on_evaluation(const worker::EvaluationEvent& event) override {
    Message message;
    message.kind = Message::Kind::evaluation;
    message.step = event.step;
    message.iteration = event.iteration;
    message.metrics = event.evaluation.metrics;
    send_own(message);
  }
  void on_checkpoint(const worker::CheckpointEvent& event) override {
    Message message;
    message.kind = Message::Kind::checkpoint;
    message.step = event.step;
    message.path = std::filesystem::absolute(event.folder).lexically_normal().string();
    send_own(message);
  }

 private:
  void send_own(const Message& message) {
    if (channel_.sender_ && index_ == 0) channel_.sender_->send(message);
  }

  JobChannel& channel_;
  int64_t index_, models_;
};

JobChannel::JobChannel(comm::Communicator& comm) {
  if (comm.rank() == 0) sender_ = jobs::ProgressSender::from_environment();
  is_job_ = !comm.broadcast_bytes(sender_ ? "job" : "", 0).empty();
}

std::unique_ptr<worker::TrainingListener> JobChannel::listener(int64_t index, int64_t models) {
  return std::make_unique<JobListener>(*this, index, models);
}

std::function<void(int64_t)> JobChannel::scored() {
  if (!sender_) return {};
  return [this](int64_t candidates) {
    progress_.scored += candidates;
    sender_->send(progress_);
  };
}

void JobChannel::send_result(int64_t step, const std::map<std::string, double>& metrics) {
  if (!sender_) return;
  Message message;
  message.kind = Message::Kind::result;
  message.step = step;
  message.metrics = metrics;
  sender_->send(message);
}

}  // namespace foretime::cli
