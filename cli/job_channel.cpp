#include "cli/job_channel.h"

namespace foretime::cli {

using Message = jobs::ProgressMessage;

JobChannel::JobChannel(comm::Communicator& comm) {
  if (comm.rank() == 0) sender_ = jobs::ProgressSender::from_environment();
  is_job_ = !comm.broadcast_bytes(sender_ ? "job" : "", 0).empty();
}

worker::TrainerEvents JobChannel::events(int64_t index, int64_t models) {
  worker::TrainerEvents events;
  events.metric_required = is_job_ && index == 0;
  if (!sender_) return events;
  events.stop_requested = [this] { return sender_->stop_requested(); };
  events.on_progress = [this, index, models](int64_t step, int64_t total_steps, double loss) {
    progress_.step = index * total_steps + step;
    progress_.total_steps = models * total_steps;
    progress_.loss = loss;
    progress_.eta_seconds = time_left_.after(progress_.step, progress_.total_steps);
    sender_->send(progress_);
  };
  events.on_scored = scored();
  if (index > 0) return events;
  events.on_evaluation = [this](int64_t step, int64_t iteration, const std::map<std::string, double>& metrics) {
    Message message;
    message.kind = Message::Kind::evaluation;
    message.step = step;
    message.iteration = iteration;
    message.metrics = metrics;
    sender_->send(message);
  };
  events.on_checkpoint = [this](int64_t step, const std::filesystem::path& folder) {
    Message message;
    message.kind = Message::Kind::checkpoint;
    message.step = step;
    message.path = std::filesystem::absolute(folder).lexically_normal().string();
    sender_->send(message);
  };
  return events;
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
